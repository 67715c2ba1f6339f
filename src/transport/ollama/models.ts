import * as v from 'valibot';
import { SvcError } from '../../errors.ts';
import type { ModelRecord } from '../../providers/port.ts';
import { wrong } from '../../runtime/contract/check.ts';
import { anything, flag, name, named, object, text } from '../../runtime/contract/vocabulary.ts';
import type { Runtime } from '../../runtime/port.ts';
import { sendLarge } from '../http/large.ts';
import { sendJson } from '../http/reply.ts';
import type { Context } from '../http/route.ts';
import { modelName } from './parameters.ts';

/** The models in the form of Ollama's API. */

export const showInput = named(
  'OllamaShowInput',
  object({
    model: v.nullish(name()),
    /** The earlier name of `model`. */
    name: v.nullish(name()),
    verbose: v.nullish(flag),
    system: v.nullish(text),
    template: v.nullish(text),
    options: v.nullish(anything),
  }),
);

/** The version of Ollama whose requests and answers these are. Clients ask before they use more. */
const API_VERSION = '0.12.11';

export function showVersion({ res, runtime }: Context): void {
  sendJson(res, 200, { version: API_VERSION, svc: runtime.health().version });
}

export async function listTags({ res, runtime }: Context): Promise<void> {
  const models = (await runtime.models.list()).filter(({ state }) => state !== 'invalid');
  const aliases = Object.entries(runtime.models.aliases()).flatMap(([alias, target]) => {
    const first = [target].flat().find((id) => models.some((model) => model.id === id));
    return models.filter(({ id }) => id === first).map((model) => ({ ...model, id: alias }));
  });
  sendJson(res, 200, { models: [...models, ...aliases].map(entryOf) });
}

/** The models in memory. One that stays, or has work, has no time at which it leaves. */
export async function listLoaded({ res, runtime }: Context): Promise<void> {
  const models = new Map((await runtime.models.list()).map((model) => [model.id, model]));
  const loaded = runtime.loads.list().models.flatMap((each) => {
    const model = models.get(each.id);
    const isThere = each.state === 'idle' || each.state === 'busy';
    return model !== undefined && isThere ? [{ model, each }] : [];
  });
  sendJson(res, 200, {
    models: loaded.map(({ model, each }) => ({
      ...entryOf(model),
      size: each.memory_bytes ?? model.size_bytes ?? 0,
      expires_at: each.expires_at,
      size_vram: 0,
      context_length: each.context_length ?? model.context_length,
    })),
  });
}

export async function showModel(
  context: Context<unknown, v.InferOutput<typeof showInput>>,
): Promise<void> {
  const { runtime, body } = context;
  const sent = await body();
  const asked = sent.model ?? sent.name ?? null;
  if (asked === null) throw wrong('model', 'model is missing.');
  const model = await findModel(runtime, asked);
  const metadata = model.provider === 'local' ? (await runtime.models.show(model.id)).metadata : {};
  const template = metadata['tokenizer.chat_template'];
  await sendLarge(context, async () => ({
    modelfile: `FROM ${model.id}\n`,
    parameters: '',
    template: typeof template === 'string' ? template : '',
    license: '',
    system: '',
    details: detailsOf(model, metadata),
    model_info: {
      ...metadata,
      ...(model.parameters === null ? {} : { 'general.parameter_count': model.parameters }),
    },
    capabilities: capabilitiesOf(model),
    modified_at: UNKNOWN_TIME,
  }));
}

/** The model of a name or alias, with or without its provider. Throws model_unknown. */
export async function findModel(
  runtime: Pick<Runtime, 'models'>,
  asked: string,
): Promise<ModelRecord> {
  const short = modelName(asked);
  const aliases = new Map(Object.entries(runtime.models.aliases()));
  const [wanted = short] = [aliases.get(asked) ?? aliases.get(short) ?? short].flat();
  const models = await runtime.models.list();
  const found =
    models.find(({ id }) => id === wanted || id === asked) ??
    models.find((model) => model.name === wanted || model.name === asked);
  if (found !== undefined) return found;
  throw new SvcError('model_unknown', `There is no model ${JSON.stringify(asked)}.`, {
    param: 'model',
  });
}

function entryOf(model: ModelRecord): object {
  return {
    name: model.id,
    model: model.id,
    modified_at: UNKNOWN_TIME,
    size: model.size_bytes ?? 0,
    digest: model.digest?.replace(/^sha256:/, '') ?? '',
    details: detailsOf(model, {}),
  };
}

function detailsOf(model: ModelRecord, metadata: Readonly<Record<string, unknown>>): object {
  const architecture = metadata['general.architecture'];
  const family = typeof architecture === 'string' ? architecture : '';
  return {
    parent_model: '',
    format: model.provider === 'local' ? 'gguf' : '',
    family,
    families: family === '' ? null : [family],
    parameter_size: sizeText(model.parameters),
    quantization_level: model.quantization ?? '',
  };
}

/** `7.6B` for 7 600 000 000 parameters. */
function sizeText(parameters: number | null): string {
  if (parameters === null) return '';
  const [unit, letter] =
    parameters >= 1e9 ? [1e9, 'B'] : parameters >= 1e6 ? [1e6, 'M'] : [1e3, 'K'];
  return `${Number((parameters / unit).toFixed(1))}${letter}`;
}

/**
 * What a client may ask. A remote provider does not say what its models can. Then tools are in the
 * list: a model that has none refuses them, and a client would not try otherwise.
 */
function capabilitiesOf({ capabilities }: ModelRecord): string[] {
  if (capabilities.length === 0) return ['completion', 'tools'];
  const known = new Set(capabilities.map((each) => (each === 'chat' ? 'completion' : each)));
  return [...known];
}

/** Files and remote APIs do not say when a model was changed. */
const UNKNOWN_TIME = new Date(0).toISOString();
