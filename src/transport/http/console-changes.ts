import * as v from 'valibot';
import { kindOf } from '../../config/providers/provider.ts';
import { invalidRequest } from '../../contract/check.ts';
import type { pullInput } from '../../contract/inputs.ts';
import { name, named, object, text } from '../../contract/vocabulary.ts';
import { sendLive } from '../stream/live.ts';
import { sendJson } from './reply.ts';
import type { Context, Differences } from './route.ts';
import { CLIENT } from './run-request.ts';

/**
 * Changes of models and providers, as the console makes them.
 *
 * 1. Each needs the scope `admin`, which the session of a browser has.
 * 2. A request names no key, no file and no server elsewhere. So a request cannot send a secret of
 *    the daemon to an address of its choice.
 */

const removeInput = named('RemoveInput', object({ model: name() }));
const addInput = named(
  'AddProviderInput',
  object({
    id: name(),
    /** Of a server on this machine. A known provider needs none. */
    base_url: v.nullish(name(2048)),
    model: v.nullish(name()),
  }),
);

export const consoleChanges: Differences = {
  'model.pull': { answers: { 200: { type: 'application/x-ndjson' } }, answer: pull },
  'model.remove': {
    body: removeInput,
    answers: { 200: named('Removed', object({ removed: text })) },
    answer: removeModel,
  },
  'provider.add': { body: addInput, answer: addProvider },
};

/** An error before the first line is an HTTP error. Later it is the last line. */
async function pull(context: Context<unknown, v.InferOutput<typeof pullInput>>): Promise<void> {
  const { reference, name = null, sha256 = null, anyway } = await context.body();
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
      const input = { reference, name, sha256, ...(anyway === true ? { anyway } : {}) };
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
}: Context<unknown, v.InferOutput<typeof removeInput>>): Promise<void> {
  const { id } = await runtime.models.remove((await body()).model);
  sendJson(res, 200, { removed: id });
}

async function addProvider({
  body,
  res,
  runtime,
}: Context<unknown, v.InferOutput<typeof addInput>>): Promise<void> {
  const { id, base_url = null, model = null } = await body();
  if (base_url !== null && (!URL.canParse(base_url) || kindOf(base_url) !== 'local'))
    throw invalidRequest(
      'base_url',
      'base_url must be an address of this machine. For another one, run: svc provider add',
    );
  const options = {
    ...(base_url === null ? {} : { base_url }),
    ...(model === null ? {} : { model }),
  };
  sendJson(res, 200, await runtime.providers.add({ id, ...options }));
}
