import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { bytes, parameters } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { table } from '../terminal/print/table.ts';
import { listModels } from './list-models.ts';

export async function run({ paths, json }: Context): Promise<number> {
  const [{ models, ...rest }, { aliases }] = await Promise.all([
    listModels(paths),
    askDaemon(paths, 'model.aliases'),
  ]);
  // A daemon of an older version does not have them.
  const { partial = [], folder }: Partial<typeof rest> = rest;
  if (json) return printJson({ models, ...rest, aliases });
  if (models.length === 0) note('No provider has a model. See them with: svc provider list');
  const rows = models.map((model) => [
    `${model.id}${model.default ? ' *' : ''}`,
    model.state.replace('_', ' '),
    `${bytes(model.size_bytes)}${(model.parts ?? 1) > 1 ? `, ${model.parts} files` : ''}`,
    parameters(model.parameters),
    model.quantization ?? '-',
    model.context_length === null ? '-' : String(model.context_length),
    model.source ?? '-',
    (model.problem ?? null) === null ? model.capabilities.join(', ') : `${model.problem}`,
  ]);
  for (const { name, size_bytes } of partial)
    rows.push([`local/${name}`, 'partial', bytes(size_bytes), '-', '-', '-', 'svc', '']);
  for (const [alias, target] of Object.entries(aliases))
    rows.push([alias, 'alias', '-', '-', '-', '-', '-', `of ${[target].flat().join(', then ')}`]);
  if (rows.length > 0)
    print(
      table(
        [
          'MODEL',
          'STATE',
          'SIZE',
          'PARAMETERS',
          'QUANTIZATION',
          'CONTEXT',
          'SOURCE',
          'CAPABILITIES, OR WHAT IS WRONG',
        ],
        rows,
        { spare: ['SOURCE', 'PARAMETERS', 'QUANTIZATION', 'CONTEXT'] },
      ),
    );
  if (folder !== undefined) note(`* is the default. The models folder is ${oneLine(folder)}`);
  if (partial.length > 0)
    note(
      'A partial download continues with the same svc model pull, or goes with svc model remove.',
    );
  return 0;
}
