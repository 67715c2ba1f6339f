import { askDaemon } from '../connect/ask-daemon.ts';
import type { Context } from '../context.ts';
import { bytes, parameters } from '../print/format.ts';
import { note, print, printJson } from '../print/output.ts';
import { table } from '../print/table.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const { models } = await askDaemon(paths, 'model.list', {}, { timeout_ms: LIST_MS });
  if (json) {
    printJson({ models });
    return 0;
  }
  if (models.length === 0) note('No provider has a model. See them with: svc provider list');
  const rows = models.map((model) => [
    `${model.id}${model.default ? ' *' : ''}`,
    model.state,
    bytes(model.size_bytes),
    parameters(model.parameters),
    model.quantization ?? '-',
    model.context_length === null ? '-' : String(model.context_length),
    model.capabilities.join(', '),
  ]);
  if (rows.length > 0)
    print(
      table(
        ['MODEL', 'STATE', 'SIZE', 'PARAMETERS', 'QUANTIZATION', 'CONTEXT', 'CAPABILITIES'],
        rows,
      ),
    );
  return 0;
}

/** Each provider has its own, shorter limit. */
const LIST_MS = 30_000;
