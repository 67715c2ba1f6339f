import * as v from 'valibot';
import { kindOf } from '../../../config/provider.ts';
import { wrong } from '../../../contract/check.ts';
import { pullInput } from '../../../contract/inputs.ts';
import { provider } from '../../../contract/records.ts';
import { name, named, object, text } from '../../../contract/vocabulary.ts';
import { sendLive } from '../live.ts';
import { sendJson } from '../reply.ts';
import { type Context, type Route, route } from '../route.ts';
import { CLIENT } from '../run-request.ts';

/**
 * Changes of models and providers, as the console makes them.
 *
 * 1. Each needs the scope `admin`, which the session of a browser has.
 * 2. A request names no key, no file and no server elsewhere. So it can send no secret of the
 *    daemon to an address of its choice.
 */

const one = object({ model: name() });
const addInput = named(
  'AddProviderInput',
  object({
    id: name(),
    /** Of a server on this machine. A known provider needs none. */
    base_url: v.nullish(name(2048)),
    model: v.nullish(name()),
  }),
);
type AddInput = v.InferOutput<typeof addInput>;
type PullInput = v.InferOutput<typeof pullInput>;

const admin = { access: 'token', scope: 'admin' } as const;

export const changeRoutes: readonly Route[] = [
  route({
    ...admin,
    method: 'POST',
    path: '/v1/models/pull',
    summary: 'Downloads a model: its record at each change, one a line. Leaving cancels it.',
    body: named('PullInput', pullInput),
    answers: { 200: { type: 'application/x-ndjson' } },
    answer: pull,
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/v1/models/remove',
    summary: 'Deletes the file of a local model.',
    body: named('RemoveInput', one),
    answers: { 200: named('Removed', object({ removed: text })) },
    answer: removeModel,
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/v1/providers',
    summary: 'Adds a known provider, or a server on this machine.',
    body: addInput,
    answers: { 200: provider },
    answer: addProvider,
  }),
  route({
    ...admin,
    method: 'DELETE',
    path: '/v1/providers/:id',
    summary: 'Removes a provider.',
    answers: { 200: provider },
    answer: async ({ req, res, runtime }: Context) =>
      sendJson(res, 200, await runtime.providers.remove(idOf(req))),
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/v1/providers/:id/test',
    summary: 'Asks a provider whether it answers, and waits for the outcome.',
    answers: { 200: provider },
    answer: async ({ req, res, runtime }: Context) =>
      sendJson(res, 200, await runtime.providers.test(idOf(req))),
  }),
  route({
    ...admin,
    method: 'POST',
    path: '/v1/providers/:id/default',
    summary: 'Makes it the provider of runs that name none.',
    answers: { 200: provider },
    answer: async ({ req, res, runtime }: Context) =>
      sendJson(res, 200, await runtime.providers.use(idOf(req))),
  }),
];

function idOf(req: Context['req']): string {
  return req.params.id ?? '';
}

/** An error before the first line is an HTTP error. Later it is the last line. */
async function pull(context: Context<unknown, PullInput>): Promise<void> {
  const { reference, name = null, sha256 = null } = await context.body();
  await sendLive(
    context,
    {
      type: 'application/x-ndjson',
      run_id: null,
      heartbeat: null,
      begin: 'late',
      failure: (error) => `${JSON.stringify({ error: error.body() })}\n`,
    },
    async ({ signal, write }) => {
      const input = { reference, name, sha256 };
      const records = context.runtime.pulls.pull(input, CLIENT, signal);
      for await (const record of records) await write(`${JSON.stringify(record)}\n`);
      return null;
    },
  );
}

async function removeModel({
  body,
  res,
  runtime,
}: Context<unknown, v.InferOutput<typeof one>>): Promise<void> {
  const { id } = await runtime.models.remove((await body()).model);
  sendJson(res, 200, { removed: id });
}

async function addProvider({ body, res, runtime }: Context<unknown, AddInput>): Promise<void> {
  const { id, base_url = null, model = null } = await body();
  if (base_url !== null && (!URL.canParse(base_url) || kindOf(base_url) !== 'local'))
    throw wrong(
      'base_url',
      'base_url must be an address of this machine. For another one, run: svc provider add',
    );
  const given = {
    ...(base_url === null ? {} : { base_url }),
    ...(model === null ? {} : { model }),
  };
  sendJson(res, 200, await runtime.providers.add({ id, ...given }));
}
