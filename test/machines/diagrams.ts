import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { instance } from '@viz-js/viz';
import type { AnyStateMachine } from 'xstate';
import { machines } from '../../machines/all.ts';
import { describe } from '../../machines/describe.ts';
import { mermaid } from '../../machines/diagrams/mermaid.ts';
import type { WalkOf } from '../../machines/diagrams/outline.ts';
import { picture } from './causes.ts';
import { dot, withNamedRows } from './pictures/dot.ts';

/**
 * Draws every machine: `npm run diagrams`. The same machine always gives the same bytes.
 *
 * - `machines/diagrams/<machine>.svg`: for readers. The daemon serves it.
 * - `machines/diagrams/walked/<machine>.svg`: for maintainers. It shows how the tests walk each
 *   edge.
 * - `machines/diagrams/machines.json`: for `svc machines diff`, which reads it from old commits.
 * - `docs/machines.md`: the same machines in Mermaid, which code hosts draw.
 */

export const FOLDER = 'machines/diagrams';
export const PAGE = 'docs/machines.md';
export const DATA = `${FOLDER}/machines.json`;

/** All of them are as wide as Courier, which the layout assumes. */
const FONTS = 'ui-monospace, SFMono-Regular, Menlo, DejaVu Sans Mono, Liberation Mono, monospace';

const ABOUT: Readonly<Record<string, string>> = {
  daemon: 'One boot of the daemon. Its tags `live` and `ready` are what health reports.',
  run: 'One prompt and its answer. It ends in one of five final states.',
  tool_call: 'One call of a tool that svc carries out. The machine of its run folds it.',
  provider: 'Whether a provider can answer: the built-in engine, or a remote API.',
  engine: 'The process that runs the local model.',
  pull: 'The download of one model.',
  mcp: 'A tool server: a child process, or a session over HTTP.',
  conversation:
    'A conversation that a program made before its first run. Its runs are machines of their own.',
  lease: 'The lease of one boot of a node. A daemon has one if several share a database.',
};

const HEAD = `# State machines

The daemon appends every event to a log, and these machines fold the events. \`npm run diagrams\` draws this page.

## What one machine causes in another

A machine asks for effects, and parts of the daemon receive its events. These parts append events of other machines. Each arrow is labelled with those events, after the effect or the occasion that leads to them. \`same commit\` is the commit that accepts a run. The events that a machine causes in itself are in its own picture below.

\`\`\`mermaid
${picture()}
\`\`\`

## How to read the pictures

* A box with a name that no state path has is a group: it shares events among its states. The groups are ${groups()}.
* An event that starts at a box is accepted in every state of the box.
* \`event [guard]\`: the machine accepts the event only if the guard agrees.
* \`on entry / effect\`: the daemon performs the effect after the commit of the event.

The code is in [\`machines/\`](../machines). \`svc machines\` prints the same diagrams, and \`svc machines --live\` marks the current states.

\`svc machines diff main\` shows a reviewer which states and edges a change removes and adds, with their guards, targets and deadlines. It compares \`machines/diagrams/machines.json\` of a commit, which \`npm run diagrams\` writes, with the machines of the program. So it builds and runs no old code. In place of a commit it takes a file that \`svc machines --json\` wrote, and a second commit or file in place of the program. Choices of one event are shown together, because the first guard that agrees decides. Like \`diff\`, it exits with 0 if nothing differs, with 1 if something does, and with 2 if it cannot compare.
`;

/** The content of every file, by its path. */
export async function drawAll(): Promise<Map<string, string>> {
  const viz = await instance();
  const svg = (text: string) =>
    withNamedRows(viz.renderString(text, { format: 'svg' })).replaceAll(
      'font-family="Courier"',
      `font-family="${FONTS}"`,
    );
  const files = machines.flatMap((machine): [string, string][] => [
    [`${FOLDER}/${machine.id}.svg`, svg(dot(machine))],
    [`${FOLDER}/walked/${machine.id}.svg`, svg(dot(machine, walkOf(machine)))],
  ]);
  return new Map([...files, [DATA, data()], [PAGE, [HEAD, ...machines.map(section)].join('\n')]]);
}

/** What `svc machines --json` prints, with a state or an edge a line. */
function data(): string {
  const list = (items: readonly unknown[]) =>
    `[\n${items.map((item) => JSON.stringify(item)).join(',\n')}\n]`;
  const shapes = machines.map((machine) => {
    const { name, initial, states, transitions } = describe(machine);
    const head = `"name": "${name}", "initial": "${initial}"`;
    return `{${head}, "states": ${list(states)}, "transitions": ${list(transitions)}}`;
  });
  return `{"machines": [\n${shapes.join(',\n')}\n]}\n`;
}

function section(machine: AnyStateMachine): string {
  const { id } = machine;
  const picture = `[As a picture with the colours of success, failure and cancel](../${FOLDER}/${id}.svg)`;
  return `## ${id}\n\n${ABOUT[id]} ${picture}.\n\n\`\`\`mermaid\n${mermaid(machine)}\`\`\`\n`;
}

function groups(): string {
  const names = machines.flatMap((machine) =>
    describe(machine).states.flatMap(({ path, type }) => (type === 'group' ? [path] : [])),
  );
  return [...new Set(names)].map((path) => `\`${path}\``).join(', ');
}

type Walked = Record<string, Record<string, 'real' | 'kernel'>>;

/**
 * How each edge was walked, as `npm run walk` wrote it. An edge of a box counts for all its states.
 */
function walkOf(machine: AnyStateMachine): WalkOf {
  const { states } = describe(machine);
  const all = JSON.parse(readFileSync(`${FOLDER}/walked/walked.json`, 'utf8')) as Walked;
  const walked = Object.entries(all[machine.id] ?? {});
  const isInside = (path: string, box: string): boolean =>
    path === box || (path !== '' && isInside(parentOf(path), box));
  const parentOf = (path: string) => states.find((state) => state.path === path)?.parent ?? '';
  return (source, type, target) => {
    const found = walked.filter(([edge]) => {
      const [from = '', event, to = ''] = edge.split(' | ');
      return event === type && isInside(from, source) && isInside(to, target);
    });
    if (found.length === 0) return 'none';
    return found.some(([, way]) => way === 'real') ? 'real' : 'kernel';
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [file, content] of await drawAll()) writeFileSync(file, content);
}
