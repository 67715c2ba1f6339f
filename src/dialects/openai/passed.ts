import * as v from 'valibot';
import { checkText, invalidRequest } from '../../contract/check.ts';
import { name, named, text } from '../../contract/vocabulary.ts';
import type { PassedInput } from '../../runtime/embeddings/embeddings.ts';
import { readForm } from '../../transport/http/body.ts';
import { jsonHeaders } from '../../transport/http/reply.ts';
import { type Context, type Route, route } from '../../transport/http/route.ts';
import { answerEndSignal, clientOf } from '../../transport/http/run-request.ts';
import { pieceWriter } from '../../transport/stream/write-pieces.ts';

/**
 * Requests that a provider gets as they are, with its own name of the model. svc knows no other
 * field of them, and keeps neither the request nor the answer.
 */

const answers = {
  200: [
    { type: 'application/json' },
    { type: 'text/event-stream' },
    { type: 'text/plain' },
    { type: 'text/vtt' },
    { type: 'application/x-subrip' },
  ],
};

/** The types that an answer keeps. A web page of an upstream must not look like a page of svc. */
const TYPES: ReadonlySet<string> = new Set(answers[200].map(({ type }) => type));

const transcriptionInput = named(
  'TranscriptionInput',
  v.looseObject({ model: name(), file: text, prompt: v.nullish(text) }),
);
const imageInput = named('ImageInput', v.looseObject({ model: name(), prompt: text }));

export const passedRoutes: readonly Route[] = [
  route({
    method: 'POST',
    path: '/v1/audio/transcriptions',
    access: 'token',
    summary: 'OpenAI: the text of a recording, from a provider that has this path. Starts no run.',
    body: transcriptionInput,
    bodyType: 'multipart/form-data',
    answers,
    answer: transcribe,
  }),
  route({
    method: 'POST',
    path: '/v1/images/generations',
    access: 'token',
    summary: 'OpenAI: images of a text, from a provider that has this path. Starts no run.',
    body: imageInput,
    answers,
    answer: draw,
  }),
];

async function transcribe(context: Context): Promise<void> {
  const { req, res, limits, ended } = context;
  const { form, bytes } = await readForm(req, res, limits.upload_bytes, { ended });
  const model = form.get('model');
  if (typeof model !== 'string' || !v.is(transcriptionInput.entries.model, model))
    throw invalidRequest('model', 'model must be the name of a model, in one field of the form.');
  if (!(form.get('file') instanceof File))
    throw invalidRequest('file', 'file must be a part of the form with a file name.');
  const texts = [...form.values()].filter((value) => typeof value === 'string');
  for (const each of texts) checkText('prompt', each);
  await passOn(context, {
    path: '/audio/transcriptions',
    purpose: 'transcription',
    model,
    texts,
    bytes,
    bodyFor: async (asked) => {
      form.set('model', asked);
      const made = new Response(form);
      return {
        content_type: made.headers.get('content-type') ?? '',
        body: new Uint8Array(await made.arrayBuffer()),
      };
    },
  });
}

async function draw(context: Context<unknown, v.InferOutput<typeof imageInput>>): Promise<void> {
  const body = await context.body();
  checkText('prompt', body.prompt);
  await passOn(context, {
    path: '/images/generations',
    purpose: 'image',
    model: body.model,
    texts: [body.prompt],
    bytes: Buffer.byteLength(JSON.stringify(body)),
    bodyFor: async (asked) => ({
      content_type: 'application/json',
      body: JSON.stringify({ ...body, model: asked }),
    }),
  });
}

/** Forwards the answer as it arrives. A client that leaves, or reads too late, ends the request. */
async function passOn(
  context: Context<unknown, unknown>,
  input: Omit<PassedInput, 'take'>,
): Promise<void> {
  const { req, res, runtime, unsent } = context;
  const outflow = unsent.enter(() => res.destroy());
  const take: PassedInput['take'] = async ({ content_type, body }, end) => {
    end.addEventListener('abort', () => res.destroy(), { once: true });
    const [type = ''] = content_type.toLowerCase().split(';');
    const known = TYPES.has(type.trim()) ? content_type : 'text/plain; charset=utf-8';
    res.writeHead(200, jsonHeaders(known));
    const write = pieceWriter(res, outflow);
    for await (const piece of body) {
      outflow.setOwnBytes(piece.length);
      await write(piece);
    }
    res.end();
  };
  try {
    const asker = { client: clientOf(req) };
    await runtime.embeddings.pass({ ...input, take }, asker, answerEndSignal(context));
  } catch (error) {
    if (!res.destroyed) throw error;
  } finally {
    outflow.leave();
  }
}
