import * as v from 'valibot';
import { EXAMPLE_ROLES, type ModelPreset } from '../../config/presets.ts';
import { check, invalidRequest, withoutNull } from '../../contract/check.ts';
import { anything, flag, name, named, object, oneOf, words } from '../../contract/vocabulary.ts';
import { asSvcError, SvcError } from '../../errors.ts';
import { aliasOf } from '../../runtime/models/alias.ts';
import { GO_HINT, GO_TEMPLATE, isGoTemplate } from '../../runtime/models/modelfile.ts';
import type { PullRecord } from '../../runtime/pulls/record.ts';
import { sendJson } from '../../transport/http/reply.ts';
import type { Context } from '../../transport/http/route.ts';
import { CLIENT, clientGoneSignal } from '../../transport/http/run-request.ts';
import { sendLive } from '../../transport/stream/live.ts';
import { lineOf } from './answer.ts';
import { errorOf } from './errors.ts';
import { digestOf, modelIn, modelParams } from './models.ts';
import { options, optionsOf } from './parameters.ts';

/**
 * Changes of models, as Ollama's API makes them. A copy is an alias. A model made by `create` is an
 * alias too, with default options for its runs.
 */

export const deleteInput = named('OllamaDeleteInput', object(modelParams));
export const copyInput = named(
  'OllamaCopyInput',
  object({ source: name(), destination: name(128) }),
);
const streamed = { ...modelParams, stream: v.nullish(flag) };
export const pullInput = named('OllamaPullInput', object(streamed));

const unsupportedField = (why: string) => v.nullish(v.never(`is not supported here: ${why}`));
const FILES = 'svc reads no uploaded files. Put the file in its place: svc model import <path>';
const FORM = 'svc uses the template of the model.';
const QUANTIZED = 'svc quantizes no models.';
export const createInput = named(
  'OllamaCreateInput',
  object({
    ...streamed,
    from: v.nullish(name()),
    system: v.nullish(words),
    parameters: v.nullish(anything),
    files: unsupportedField(FILES),
    draft_files: unsupportedField(FILES),
    adapters: unsupportedField(
      'an adapter is a file of this machine: svc model create <name> --file Modelfile',
    ),
    template: v.nullish(words),
    renderer: unsupportedField(FORM),
    parser: unsupportedField(FORM),
    messages: v.nullish(
      v.array(
        object({ role: oneOf(EXAMPLE_ROLES), content: words }),
        'must be a list of messages.',
      ),
    ),
    license: v.nullish(v.union([words, v.array(words)], 'must be a text, or a list of texts.')),
    quantize: unsupportedField(QUANTIZED),
    quantization: unsupportedField(QUANTIZED),
    remote_host: unsupportedField('add the server with: svc provider add'),
  }),
);

type Sent<S extends v.GenericSchema> = Context<unknown, v.InferOutput<S>>;
const SUCCESS = { status: 'success' };

export async function remove({ runtime, res, body }: Sent<typeof deleteInput>): Promise<void> {
  const { models } = runtime;
  const model = modelIn(await body());
  const isAlias = aliasOf(model, models.aliases()) !== null;
  const { id, provider } = isAlias ? { id: model, provider: 'local' } : await models.find(model);
  if (provider !== 'local')
    throw invalidRequest(
      'model',
      `The model belongs to ${provider}. svc deletes only files of its models folder.`,
    );
  await models.remove(id);
  res.writeHead(200).end();
}

export async function copy({ runtime, res, body }: Sent<typeof copyInput>): Promise<void> {
  const { source, destination } = await body();
  await runtime.models.create(destination, source, {});
  res.writeHead(200).end();
}

export async function create(context: Sent<typeof createInput>): Promise<void> {
  const { runtime, res } = context;
  const sent = await context.body();
  const model = modelIn(sent);
  const { from = null, system, template, messages, license, parameters } = sent;
  if (from === null) throw invalidRequest('from', 'from is missing: the name of a model.');
  if (isGoTemplate(template ?? ''))
    throw new SvcError('invalid_request', GO_TEMPLATE, { param: 'template', hint: GO_HINT });
  const checked = check(object({ parameters: v.nullish(options) }), { parameters });
  const preset = {
    ...optionsOf(checked.parameters ?? {}, runtime.loads.isLocal(from)),
    system,
    chat_template: template,
    messages: messages?.map(({ role, content }) => ({ role, text: content })),
    licence: license == null ? null : [license].flat().join('\n\n'),
  };
  await runtime.models.create(model, from, withoutNull(preset) as ModelPreset);
  if (sent.stream === false) return sendJson(res, 200, SUCCESS);
  await sendStatuses(context, async (write) => write(SUCCESS));
}

/** An error before the first line is an HTTP error. Later it is the last line. */
export async function pull(context: Sent<typeof pullInput>): Promise<void> {
  const sent = await context.body();
  const model = modelIn(sent);
  if (sent.stream === false) {
    await pullModel(context, model, clientGoneSignal(context), async () => {});
    return sendJson(context.res, 200, SUCCESS);
  }
  await sendStatuses(context, async (write, signal) => pullModel(context, model, signal, write));
}

type Write = (status: object) => Promise<void>;

function sendStatuses(
  context: Context,
  work: (write: Write, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  return sendLive(
    context,
    {
      type: 'application/x-ndjson',
      run_id: null,
      heartbeat: null,
      begin: 'late',
      failure: (error) => lineOf(errorOf(error)),
    },
    async ({ write, signal }) => {
      await work((status) => write(lineOf(status)), signal);
      return null;
    },
  );
}

async function pullModel(
  { runtime }: Context,
  model: string,
  signal: AbortSignal,
  write: Write,
): Promise<void> {
  const reference = model.replace(/^(hf\.co|huggingface\.co)\//, 'hf:');
  const input = { reference, name: null, sha256: null };
  try {
    for await (const record of runtime.pulls.pull(input, CLIENT, signal))
      await write(statusOf(record));
  } catch (error) {
    if (!NO_REFERENCE.has(asSvcError(error).code)) throw error;
    // A model of another program or provider, or an alias. If it is unknown, the first error
    // counts.
    await runtime.models.find(model).catch(() => {
      throw error;
    });
    await write(SUCCESS);
  }
}

/** No model has such a name, in the catalogue or at a hub. */
const NO_REFERENCE = new Set<SvcError['code']>(['invalid_request', 'model_unknown']);

function statusOf({ state, file, url, size_bytes, bytes, error }: PullRecord): object {
  if (state === 'completed') return SUCCESS;
  if (state === 'resolving') return { status: 'pulling manifest' };
  if (state === 'verifying') return { status: 'verifying sha256 digest' };
  if (state === 'backoff') return { status: `waiting: ${error?.message ?? 'the hub is away'}` };
  // The hash of the file is known at the end only. Clients tell files from each other by this.
  const digest = `sha256:${digestOf({ id: url ?? '', digest: null })}`;
  const progress = { digest, total: size_bytes ?? 0, completed: bytes };
  return { status: `pulling ${file ?? ''}`, ...progress };
}
