import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { bytes, parameters, shortened } from '../print/format.ts';
import { print, printJson } from '../print/output.ts';
import { fields } from '../print/table.ts';

const VALUE_WIDTH = 100;

export async function run({ paths, args, json }: Context): Promise<number> {
  const model = await askDaemon(paths, 'model.show', { id: args[0] }, { timeout_ms: SHOW_MS });
  if (json) {
    printJson(model);
    return 0;
  }
  const known = fields([
    ['state', model.state],
    ['provider', model.provider],
    ['size', bytes(model.size_bytes)],
    ['parameters', parameters(model.parameters)],
    ['quantization', model.quantization],
    ['context', model.context_length === null ? null : `${model.context_length} tokens`],
    ['capabilities', model.capabilities.join(', ')],
    ['digest', model.digest],
    ['path', model.path],
  ]);
  const metadata = Object.entries(model.metadata ?? {}).map(([name, value]): [string, string] => [
    name,
    shortened(typeof value === 'string' ? value : JSON.stringify(value), VALUE_WIDTH),
  ]);
  if (model.metadata_left_out > 0)
    metadata.push(['…', `${model.metadata_left_out} more entries, too large to show`]);
  print(
    `${oneLine(model.id)}${model.default ? ' (the default)' : ''}\n${known}${metadata.length === 0 ? '' : `\n\nIts file says\n${fields(metadata)}`}`,
  );
  return 0;
}

const SHOW_MS = 30_000;
