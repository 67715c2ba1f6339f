import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { machines } from '../../../machines/all.ts';
import { SvcError } from '../../errors.ts';
import { packageRoot } from '../../home/paths.ts';
import { type Context, type Route, route } from './route.ts';
import {
  STATIC_HEADERS,
  type StaticFile,
  sendFile,
  staticAnswers,
  staticFile,
} from './static-file.ts';

export const machineRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/machines/:name/diagram',
    access: 'token',
    summary: 'The diagram of a machine, as SVG.',
    headers: STATIC_HEADERS,
    answers: staticAnswers('image/svg+xml'),
    answer: showDiagram,
  }),
];

/** The diagram of a machine, made from the machine at build time. */
function showDiagram({ req, res }: Context): void {
  const { name = '' } = req.params;
  const known = machines.map(({ id }) => id);
  if (!known.includes(name)) {
    throw new SvcError(
      'route_unknown',
      `There is no machine ${JSON.stringify(name.slice(0, 80))}; there are ${known.join(', ')}.`,
    );
  }
  sendFile(req, res, diagram(name), POLICY);
}

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
const read = new Map<string, StaticFile>();

function diagram(name: string): StaticFile {
  const file =
    read.get(name) ??
    staticFile(
      'image/svg+xml; charset=utf-8',
      readFileSync(join(packageRoot(), 'machines', 'diagrams', `${name}.svg`)),
    );
  read.set(name, file);
  return file;
}
