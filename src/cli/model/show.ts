import { errors } from '../../errors.ts';
import { oneLine, toPlain } from '../../logs/plain.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes, localTime, parameters, shortenLine } from '../terminal/print/format.ts';
import { print, printJson } from '../terminal/print/output.ts';
import { fields } from '../terminal/print/table.ts';

const VALUE_WIDTH = 100;

export async function run({ paths, args, flags, json }: Context): Promise<number> {
  const model = await askDaemon(paths, 'model.show', { id: args[0] }, { timeout_ms: SHOW_MS });
  if (flags.modelfile === true) {
    if (json) printJson({ modelfile: model.modelfile });
    else print(toPlain(model.modelfile?.trimEnd() ?? `FROM ${model.id}`));
    return 0;
  }
  const code = model.state === 'invalid' ? errors.model_invalid.exit : 0;
  if (json) {
    printJson(model);
    return code;
  }
  const known = fields([
    ['state', model.state],
    ['problem', model.problem ?? null],
    ['provider', model.provider],
    ['architecture', model.architecture ?? null],
    [
      'size',
      `${bytes(model.size_bytes)}${(model.parts ?? 1) > 1 ? ` in ${model.parts} files` : ''}`,
    ],
    ['parameters', parameters(model.parameters)],
    ['quantization', model.quantization],
    ['context', model.context_length === null ? null : `${model.context_length} tokens`],
    ['is made of', model.alias_of ?? null],
    ['template', templateOf(model)],
    ['system', model.defaults?.system ?? null],
    ['by default', defaultsOf(model)],
    ['examples', model.defaults?.turns === undefined ? null : `${model.defaults.turns} messages`],
    ['not used', model.unused?.length ? `of Ollama: ${model.unused.join(', ')}` : null],
    ['licence', model.licence ?? null],
    [
      'memory',
      (model.memory_bytes ?? null) === null
        ? null
        : `about ${bytes(model.memory_bytes ?? 0)}${cacheOf(model)}`,
    ],
    ['fit', model.fit?.text ?? null],
    ['capabilities', model.capabilities.join(', ')],
    ['tools', toolsOf(model)],
    ['adapters', model.adapters?.length ? model.adapters.join(', ') : null],
    ['draft model', model.draft == null ? null : draftOf(model.draft)],
    ['images', model.projector == null ? null : `by llama-server, with ${model.projector}`],
    ['digest', model.digest],
    ['source', model.source ?? null],
    ['from', model.origin == null ? null : originOf(model.origin)],
    ['path', model.path],
  ]);
  const metadata = Object.entries(model.metadata ?? {}).map(([name, value]): [string, string] => [
    name,
    shortenLine(typeof value === 'string' ? value : JSON.stringify(value), VALUE_WIDTH),
  ]);
  if (model.metadata_left_out > 0)
    metadata.push(['…', `${model.metadata_left_out} more entries, too large to show`]);
  print(`${oneLine(model.id)}${model.default ? ' (the default)' : ''}\n${known}`);
  if (metadata.length > 0) print(`\nIts file says\n${fields(metadata)}`);
  return code;
}

function defaultsOf({ defaults }: Results['model.show']): string | null {
  const options = Object.entries(defaults?.options ?? {});
  if (options.length === 0) return null;
  return options.map(([name, value]) => `${name} ${JSON.stringify(value)}`).join(', ');
}

/** Null: it writes no texts. */
function toolsOf({ provider, capabilities }: Results['model.show']): string | null {
  const writes = capabilities.includes('chat') || capabilities.includes('completion');
  if (provider !== 'local' || !writes) return null;
  if (capabilities.includes('tools')) return 'yes';
  return capabilities.includes('chat') ? 'no: they are written as a system text' : 'no';
}

function templateOf({ template, template_problem }: Results['model.show']): string | null {
  if (template == null)
    return template_problem === undefined ? null : `none: one ${template_problem}`;
  return template_problem === undefined ? template : `${template}, which ${template_problem}`;
}

function cacheOf({ attention }: Results['model.show']): string {
  if (attention === undefined) return '';
  const { cache_keys, cache_values } = attention;
  const types = `${cache_keys}/${cache_values}`;
  return types === 'f16/f16' ? '' : `, with a cache of ${types}`;
}

function draftOf({ model, problem }: NonNullable<Results['model.show']['draft']>): string {
  return problem === null ? model : `${model}, which does not fit: ${problem}`;
}

function originOf({
  reference,
  revision,
  at,
}: NonNullable<Results['model.show']['origin']>): string {
  return `${reference}${revision === null ? '' : `, revision ${revision}`}, at ${localTime(at)}`;
}

const SHOW_MS = 30_000;
