import type { AnyStateMachine } from 'xstate';
import { anyCard, card, mark, portOf, sharedCard } from './card.ts';
import { type Edge, type Outline, outline, type State, type WalkOf } from './outline.ts';
import { type Paint, paintOf, paints, type Walk, walks } from './paint.ts';

/**
 * The machine in the language of Graphviz, for a picture that shows everywhere. A page can light its parts by their ids, which are
 * `state:<path>` and `edge:<source>|<event>|<target>`, and colour them by their classes.
 */
export function dot(machine: AnyStateMachine, walkOf?: WalkOf): string {
  const drawn = outline(machine, walkOf);
  const anywhere = drawn.edges.filter(({ from }) => from === '');
  const lines = [
    `digraph ${drawn.name} {`,
    'graph [rankdir=LR, bgcolor=white, pad=0.3, nodesep=0.25, ranksep=0.9, fontname="Courier", fontsize=13]',
    'node [shape=plain, fontname="Courier", fontsize=12]',
    'edge [color="#666666", arrowsize=0.7]',
    `graph [label=<<b>${drawn.name}</b>${legend(drawn)}>, labelloc=t, labeljust=l]`,
    ...level(drawn, ''),
    ...(anywhere.length > 0 ? [`any [label=${anyCard(anywhere)}]`] : []),
    ...begin(drawn),
    ...drawn.edges.map((edge, index) => arrow(drawn, edge, index)),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

function begin(drawn: Outline): string[] {
  const first = drawn.states.find(({ parent }) => parent === '')?.id ?? '';
  return [
    'start [shape=circle, style=filled, fillcolor="#333333", color="#333333", width=0.12, fixedsize=true, label="", class="start"]',
    `start -> ${anchor(drawn, first)}:name:w [class="start"]`,
  ];
}

function level(drawn: Outline, parent: string): string[] {
  return drawn.states
    .filter((state) => state.parent === parent)
    .flatMap((state) => (state.kind === 'compound' ? cluster(drawn, state) : [node(drawn, state)]));
}

function cluster(drawn: Outline, state: State): string[] {
  const { line } = paints[paintOf(state)];
  const shared = sharedCard(drawn, state);
  return [
    `subgraph cluster_${state.id} {`,
    `graph [style="rounded", color="${line}", penwidth=1.4, label=<<b>${mark(drawn, state)}${state.name}</b>>, labelloc=t, labeljust=l, ${marks(state)}]`,
    ...(shared === null ? [] : [`${state.id}_all [label=${shared}, class="shared"]`]),
    ...level(drawn, state.id),
    '}',
  ];
}

function node(drawn: Outline, state: State): string {
  return `${state.id} [label=${card(drawn, state)}, ${marks(state)}]`;
}

function marks(state: State): string {
  return `id="state:${state.path}", class="${state.kind} ${paintOf(state)}"`;
}

/** From the row of its event to the name of the state it leads to. Back to an earlier state it runs on the other sides of both. */
function arrow(drawn: Outline, edge: Edge, index: number): string {
  const place = (id: string) => drawn.states.findIndex((state) => state.id === id);
  const source = drawn.states[place(edge.from)];
  const tail = `${source === undefined ? 'any' : source.kind === 'compound' ? `${source.id}_all` : source.id}:${portOf(index)}`;
  const head = anchor(drawn, edge.to);
  const marks = `id="${edgeIds(drawn)[index]}", ${walkMarks(edge)}`;
  return place(head) < place(edge.from)
    ? `${head}:name:e -> ${tail}:w [dir=back, ${marks}]`
    : `${tail}:e -> ${head}:name:w [${marks}]`;
}

function walkMarks({ walk }: Edge): string {
  return walk === null
    ? 'class="transition"'
    : `class="transition walked-${walk}", color="${walks[walk].line}", style="${walks[walk].style}"`;
}

/** Of edges that differ in nothing but their guard the second ends in `|2`, and so on. */
function edgeIds({ states, edges }: Outline): string[] {
  const path = (id: string) => states.find((state) => state.id === id)?.path ?? '';
  const names = edges.map(({ from, type, to }) => `edge:${path(from)}|${type}|${path(to)}`);
  return names.map((name, index) => {
    const nth = names.slice(0, index + 1).filter((other) => other === name).length;
    return nth === 1 ? name : `${name}|${nth}`;
  });
}

/** A state without others inside: the state itself, or the one that it begins with. */
function anchor(drawn: Outline, id: string): string {
  const initial = drawn.states.find((state) => state.id === id)?.initial;
  return initial === null || initial === undefined ? id : anchor(drawn, initial);
}

function legend(drawn: Outline): string {
  const used = new Set<Paint>(drawn.states.filter(({ kind }) => kind !== 'compound').map(paintOf));
  const entries = (Object.keys(paints) as Paint[]).filter((name) => used.has(name));
  const swatches = entries.map(
    (name) => `<font color="${paints[name].line}">■ ${paints[name].meaning}</font>`,
  );
  const signs =
    '▸ entered first  <b>event</b> <font color="#2b62a8">[guard]</font> <font color="#8a5a00">/ actions</font>';
  return [
    '',
    ...[swatches.join('   '), signs, ...walked(drawn)].map(
      (line) => `<font point-size="10">${line}</font>`,
    ),
    '',
  ].join('<br align="left"/>');
}

/** What the colours of the arrows mean; nothing where it is not told. */
function walked({ states, edges }: Outline): string[] {
  const used = new Set([...edges, ...states.flatMap(({ loops }) => loops)].map(({ walk }) => walk));
  const entries = (Object.keys(walks) as Walk[]).filter((walk) => used.has(walk));
  return entries.length === 0
    ? []
    : [
        entries
          .map((walk) => `<font color="${walks[walk].line}">→ ${walks[walk].meaning}</font>`)
          .join('   '),
      ];
}
