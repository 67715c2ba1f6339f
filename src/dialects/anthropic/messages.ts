import * as v from 'valibot';
import { requestNow } from '../../../machines/run/turns.ts';
import type { RunRecord } from '../../contract/contract.ts';
import { parseRunInput } from '../../contract/inputs.ts';
import { named, object, text, whole } from '../../contract/vocabulary.ts';
import type { SvcError } from '../../errors.ts';
import { estimatedTokens } from '../../runtime/runs/usage-of.ts';
import { sendJson } from '../../transport/http/reply.ts';
import { type Context, type Route, route } from '../../transport/http/route.ts';
import { clientGoneSignal } from '../../transport/http/run-request.ts';
import { sendAnswer, streamAnswer } from '../answer.ts';
import { toApiId } from '../ids.ts';
import { startFor } from '../start.ts';
import { messageOf } from './answer.ts';
import { readFiles } from './documents.ts';
import {
  countInput,
  messagesInput,
  readCount,
  readMessages,
  refuseServerTools,
  toRequestError,
} from './request.ts';
import { event, MessageEvents } from './stream.ts';
import { ASKED_AS, threadOf } from './thread.ts';

const shared = {
  access: 'token',
  unknownFields: 'may refuse',
  errors: errorOf,
  requestId: 'Request-Id',
  errorSchema: named(
    'AnthropicError',
    object({
      type: v.literal('error'),
      error: object({
        type: text,
        message: text,
        details: object({ error_code: text, param: v.exactOptional(text) }),
      }),
    }),
  ),
} as const;

/** The routes of Anthropic's API. */
export const anthropicRoutes: readonly Route[] = [
  route({
    ...shared,
    method: 'POST',
    path: '/v1/messages',
    summary: "A message in Anthropic's form; `stream` sends its events.",
    headers: ['Idempotency-Key', 'X-Svc-Client', 'X-Svc-On-Disconnect'],
    body: messagesInput,
    asksModel: true,
    answers: {
      200: [
        named('AnthropicMessage', v.looseObject({ id: text, type: v.literal('message') })),
        { type: 'text/event-stream' },
      ],
    },
    answer: createMessage,
  }),
  route({
    ...shared,
    method: 'POST',
    path: '/v1/messages/count_tokens',
    summary: 'The tokens of such a request, counted by the model that it names.',
    body: countInput,
    asksModel: true,
    answers: { 200: named('AnthropicCount', object({ input_tokens: whole })) },
    answer: countTokens,
  }),
];

type MessagesContext = Context<unknown, v.InferOutput<typeof messagesInput>>;
type CountContext = Context<unknown, v.InferOutput<typeof countInput>>;

async function createMessage(context: MessagesContext): Promise<void> {
  const sent = await context.body({ complete: refuseServerTools });
  const thread = await threadOf(context.runtime, sent.thread);
  const texts = await readFiles(sent.messages, context);
  const read = readMessages(sent, { texts, thread });
  const { input, narrowings, places, stream, thoughts } = read;
  const rename = (thrown: unknown) => toRequestError(thrown, places);
  const { runtime, res } = context;
  const asked = { api: ASKED_AS, narrowings, streams: stream };
  const run = await startFor(context, input, asked).catch((thrown) => {
    throw rename(thrown);
  });
  if (!res.headersSent) res.setHeader('Request-Id', toApiId('req_', run.id));
  const shownOf = (run: RunRecord) => ({ model: `${run.provider}/${run.model}`, thoughts });
  if (!stream)
    return sendAnswer(
      context,
      run,
      (answer) => messageOf(answer.run, shownOf(answer.run), answer),
      { rename, showsCalls: true },
    );
  const { request } = await runtime.runs.readRequest(run.id);
  const prompt_tokens = estimatedTokens(requestNow({ request, turns: [], calls: [] }));
  let events: MessageEvents | null = null;
  const begin = (run: RunRecord, input_tokens: number): [MessageEvents, string] => {
    if (events !== null) return [events, ''];
    events = new MessageEvents(run, shownOf(run));
    return [events, events.start(input_tokens)];
  };
  await streamAnswer(
    context,
    run,
    {
      type: 'text/event-stream',
      heartbeat: event('ping', {}),
      failure: (error) => event('error', errorOf(error)),
      rename,
      onCall: (call, present) => {
        const [message, first] = begin(present(), prompt_tokens);
        return first + message.call(present(), call);
      },
    },
    async (pieces, { write }, present) => {
      for await (const piece of pieces) {
        const counted = piece.type === 'end' ? undefined : piece.prompt_tokens;
        const [message, first] = begin(present(), counted ?? prompt_tokens);
        const now = first + (piece.type === 'end' ? message.end(piece) : message.piece(piece));
        if (now !== '') await write(now);
      }
    },
  );
}

async function countTokens(context: CountContext): Promise<void> {
  const { res, runtime, limits } = context;
  const sent = await context.body({ complete: refuseServerTools });
  const texts = await readFiles(sent.messages, context);
  const { input, narrowings, places } = readCount(sent, { texts });
  try {
    const asked = [parseRunInput(input, limits), clientGoneSignal(context), narrowings] as const;
    const { input_tokens, uncounted } = await runtime.runs.countTokens(...asked);
    if (uncounted !== null) throw uncounted;
    sendJson(res, 200, { input_tokens });
  } catch (thrown) {
    throw toRequestError(thrown, places);
  }
}

/** An error in the envelope of Anthropic's API. */
export function errorOf(error: SvcError): object {
  const { code, message, hint, param } = error;
  return {
    type: 'error',
    error: {
      type: typeOf(error),
      message: `${message} ${hint}`,
      details: { error_code: code, ...(param === null ? {} : { param }) },
    },
  };
}

function typeOf({ code, http }: SvcError): string {
  return BY_CODE[code] ?? BY_STATUS[http] ?? (http < 500 ? 'invalid_request_error' : 'api_error');
}

const BY_STATUS: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};
/** The daemon or the provider takes no work now, or the account at the provider is empty. */
const BY_CODE: Readonly<Record<string, string>> = {
  not_ready: 'overloaded_error',
  daemon_stopping: 'overloaded_error',
  store_stalled: 'overloaded_error',
  store_full: 'overloaded_error',
  descriptors_exhausted: 'overloaded_error',
  provider_overloaded: 'overloaded_error',
  provider_quota_exceeded: 'billing_error',
};
