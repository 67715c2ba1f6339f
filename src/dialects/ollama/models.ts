import { createHash } from 'node:crypto';
import * as v from 'valibot';
import { invalidRequest } from '../../contract/check.ts';
import type { ModelRecord } from '../../contract/model-record.ts';
import { anything, flag, name, named, object, text } from '../../contract/vocabulary.ts';
import { aliasOf } from '../../runtime/models/alias.ts';
import { parametersOf, writeModelfile } from '../../runtime/models/modelfile.ts';
import { sendLarge } from '../../transport/http/large.ts';
import { sendJson } from '../../transport/http/reply.ts';
import type { Context } from '../../transport/http/route.ts';

/** The models in the form of Ollama's API. */

/** A model, by its earlier name too. */
export const modelParams = { model: v.nullish(name()), name: v.nullish(name()) };

type Sent = string | null | undefined;

/** Throws invalid_request. */
export function modelIn(sent: { model?: Sent; name?: Sent }): string {
  const model = sent.model ?? sent.name ?? null;
  if (model === null) throw invalidRequest('model', 'model is missing.');
  return model;
}

export const showInput = named(
  'OllamaShowInput',
  object({
    ...modelParams,
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
    return models.filter(({ id }) => id === first).map((model) => entryOf(model, alias));
  });
  sendJson(res, 200, { models: [...models.map((model) => entryOf(model)), ...aliases] });
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
  const sent = modelIn(await body());
  const aliases = runtime.models.aliases();
  const alias = aliasOf(sent, aliases);
  const preset = alias === null ? {} : runtime.models.presetOf(alias);
  const model = await runtime.models.find(sent);
  const [target = model.id] = alias === null ? [] : [aliases[alias] ?? []].flat();
  const file = model.provider === 'local' ? await runtime.models.show(model.id) : null;
  const { 'tokenizer.chat_template': template, ...metadata } = file?.metadata ?? {};
  const { system = '', messages = [], chat_template = template } = preset;
  await sendLarge(context, async () => ({
    modelfile: writeModelfile(target, preset),
    parameters: parametersOf(preset).join('\n'),
    template: typeof chat_template === 'string' ? chat_template : '',
    license: preset.licence ?? file?.licence ?? '',
    system,
    ...(messages.length === 0
      ? {}
      : { messages: messages.map(({ role, text }) => ({ role, content: text })) }),
    details: detailsOf(model),
    model_info: {
      ...metadata,
      ...(model.parameters === null ? {} : { 'general.parameter_count': model.parameters }),
    },
    capabilities: capabilitiesOf(model),
    modified_at: model.modified_at ?? UNKNOWN_TIME,
  }));
}

/** Clients look for the name with a tag. */
function entryOf(model: ModelRecord, name = model.id): object {
  const tagged = /:[^/]*$/.test(name) ? name : `${name}:latest`;
  return {
    name: tagged,
    model: tagged,
    modified_at: model.modified_at ?? UNKNOWN_TIME,
    size: model.size_bytes ?? 0,
    digest: digestOf(model),
    details: detailsOf(model),
  };
}

/** Clients cut it, and take models with the same one for one model. So each model has one. */
export function digestOf({ id, digest }: Pick<ModelRecord, 'id' | 'digest'>): string {
  const [, known] = /^(?:sha256:)?([0-9a-f]{64})$/.exec(digest ?? '') ?? [];
  return known ?? createHash('sha256').update(id).digest('hex');
}

function detailsOf(model: ModelRecord): object {
  const family = model.architecture ?? '';
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
 * The capabilities of a model. A remote provider does not list them, but the names of most models
 * show whether they are for embeddings. All others are listed with tools: a model without tools
 * refuses them, and a client would not try otherwise.
 */
function capabilitiesOf({ capabilities, name }: ModelRecord): string[] {
  if (capabilities.length === 0)
    return EMBEDDING.test(name) ? ['embedding'] : ['completion', 'tools'];
  const known = new Set(capabilities.map((each) => (each === 'chat' ? 'completion' : each)));
  return [...known];
}

const EMBEDDING = /embed|minilm|(^|[/_-])(bge|e5|gte)-/i;

/** Remote APIs do not say when a model was changed. Programs in Go show this time as `Never`. */
const UNKNOWN_TIME = '0001-01-01T00:00:00Z';
