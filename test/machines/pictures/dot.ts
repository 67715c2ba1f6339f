import type { AnyStateMachine } from 'xstate';
import {
  type Choice,
  choiceOf,
  type Edge,
  isFirst,
  isNamed,
  type Outline,
  outline,
  type State,
  type WalkOf,
} from '../../../machines/diagrams/outline.ts';
import {
  outcomeOf,
  outcomes,
  type Paint,
  paintOf,
  paints,
  type Walk,
  walks,
} from '../../../machines/diagrams/paint.ts';
import type { Outcome } from '../../../src/contract/run-events.ts';
import {
  anyCard,
  BREAK,
  card,
  choiceCard,
  classOf,
  edgeIds,
  mark,
  portOf,
  sharedCard,
} from './card.ts';

/**
 * The machine in the language of Graphviz. A page can highlight its parts by their ids, which are
 * `state:<path>` and `edge:<source>|<event>|<target>`, and by their classes.
 */
export function dot(machine: AnyStateMachine, walkOf?: WalkOf): string {
  const drawn = outline(machine, walkOf);
  const anywhere = drawn.edges.filter(({ from }) => from === '');
  const lines = [
    `digraph ${drawn.name} {`,
    'graph [rankdir=LR, bgcolor=white, pad=0.3, nodesep=0.3, ranksep=0.5]',
    'graph [fontname="Courier", fontsize=16]',
    'node [shape=plain, fontname="Courier", fontsize=12]',
    'edge [color="#666666", arrowsize=0.8, penwidth=1.3]',
    `graph [label=<<b>${drawn.name}</b>${legend(drawn)}>, labelloc=t, labeljust=l]`,
    ...level(drawn, ''),
    ...(anywhere.length > 0 ? [`any [label=${anyCard(drawn, anywhere)}]`] : []),
    ...begin(drawn),
    ...drawn.edges.map((edge, index) => (isNamed(drawn, edge) ? '' : arrow(drawn, edge, index))),
    ...drawn.states.flatMap((state) => (state.type === 'final' ? behind(drawn, state) : [])),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

function begin(drawn: Outline): string[] {
  const first = drawn.states.find(({ parent }) => parent === '')?.id ?? '';
  return [
    'start [shape=circle, style=filled, fillcolor="#333333", color="#333333"]',
    'start [width=0.12, fixedsize=true, label="", class="start"]',
    `start -> ${anchor(drawn, first)}:name:w [class="start"]`,
  ];
}

function level(drawn: Outline, parent: string): string[] {
  return [
    ...drawn.states
      .filter((state) => state.parent === parent)
      .flatMap((state) => (state.isCompound ? cluster(drawn, state) : [node(drawn, state)])),
    ...drawn.choices
      .filter((choice) => boxOf(drawn, choice) === parent)
      .flatMap((choice) => diamond(drawn, choice)),
  ];
}

/** The outermost box around the states that a choice leads to. */
function boxOf(drawn: Outline, { exits }: Choice): string {
  const outermost = (id: string): string => {
    const parent = drawn.states.find((state) => state.id === id)?.parent ?? '';
    return parent === '' ? id : outermost(parent);
  };
  const boxes = new Set(exits.map(({ to }) => outermost(to)));
  return boxes.size === 1 ? ([...boxes][0] ?? '') : '';
}

/** A box around the inner states. That of a group is dashed. */
function cluster(drawn: Outline, state: State): string[] {
  const { line } = paints[paintOf(state)];
  const shared = sharedCard(drawn, state);
  const style = state.type === 'group' ? 'rounded,dashed' : 'rounded';
  const title = `<b>${mark(drawn, state)}${state.name}</b>`;
  return [
    `subgraph cluster_${state.id} {`,
    `graph [style="${style}", color="${line}", penwidth=1.4, fontsize=14, ${marks(state)}]`,
    `graph [label=<${title}>, labelloc=t, labeljust=l]`,
    ...(shared === null ? [] : [`${state.id}_all [label=${shared}, class="shared"]`]),
    ...level(drawn, state.id),
    '}',
  ];
}

function node(drawn: Outline, state: State): string {
  return `${state.id} [label=${card(drawn, state)}, ${marks(state)}]`;
}

function marks(state: State): string {
  return `id="state:${state.path}", class="${state.type} ${paintOf(state)}"`;
}

/**
 * From the row of its event to the name of the state it leads to. An arrow back to an earlier state
 * uses the other sides of both.
 */
function arrow(drawn: Outline, edge: Edge, index: number): string {
  const place = (id: string) => drawn.states.findIndex((state) => state.id === id);
  const tail = `${nodeOf(drawn, edge.from)}:${portOf(index)}`;
  const head = anchor(drawn, edge.to);
  const choice = choiceOf(drawn, edge);
  const id = edgeIds(drawn)[index];
  if (choice !== undefined)
    return isFirst(choice, edge)
      ? `${tail}:e -> ${choice.id}:w [id="${id}", ${edgeMarks(edge)}]`
      : '';
  const attributes = `id="${id}", ${edgeMarks(edge)}`;
  return place(head) < place(edge.from)
    ? `${head}:name:e -> ${tail}:w [dir=back, ${attributes}]`
    : `${tail}:e -> ${head}:name:w [${attributes}]`;
}

/** Without an arrow an end comes after the last state that leads to it. */
function behind(drawn: Outline, { id }: State): string[] {
  const last = drawn.edges.findLast(({ to }) => to === id);
  if (last === undefined || !isNamed(drawn, last)) return [];
  return [`${nodeOf(drawn, last.from)} -> ${id} [style=invis]`];
}

/** The card with the rows of a state, of a box, or of any state. */
function nodeOf(drawn: Outline, id: string): string {
  const state = drawn.states.find((each) => each.id === id);
  return state === undefined ? 'any' : state.isCompound ? `${id}_all` : id;
}

/** Where several events go on in the same way. */
function diamond(drawn: Outline, choice: Choice): string[] {
  const { id, exits, edges } = choice;
  const [first] = edges;
  if (first !== undefined && isNamed(drawn, first))
    return [`${id} [label=${choiceCard(drawn, choice)}, class="choice"]`];
  return [
    `${id} [shape=diamond, style=filled, fillcolor="#eeeeee", color="#777777", label="", width=0.3, height=0.3, class="choice"]`,
    ...exits.map(({ guard, to }) => {
      const label = guard === null ? '' : `[${guard}]`;
      return `${id} -> ${anchor(drawn, to)}:name:w [label="${label}", fontname="Courier", fontsize=12, fontcolor="#555555", class="choice"]`;
    }),
  ];
}

function edgeMarks(edge: Edge): string {
  const { walk } = edge;
  const line = walk === null ? outcomes[outcomeOf(edge)].line : walks[walk].line;
  const style = walk === null ? '' : `, style="${walks[walk].style}"`;
  return `class="${classOf(edge)}", color="${line}"${style}`;
}

/** The innermost state that is entered with this one. */
function anchor(drawn: Outline, id: string): string {
  const initial = drawn.states.find((state) => state.id === id)?.initial;
  return initial === null || initial === undefined ? id : anchor(drawn, initial);
}

function legend(drawn: Outline): string {
  const { states, edges } = drawn;
  const labels = [...edges, ...states.flatMap(({ loops }) => loops)];
  const inner = states.filter(({ isCompound }) => !isCompound);
  const walked = new Set(labels.map(({ walk }) => walk).filter((walk) => walk !== null));
  const lines = [
    keys('■', paints, new Set<Paint>(inner.map(paintOf))),
    walked.size > 0
      ? keys('→', walks, new Set<Walk>(walked))
      : keys('→', outcomes, new Set<Outcome>(labels.map(outcomeOf))),
    '▸ entered first   <b>event</b> [guard]   → leads to that state   ↻ leaves no state   ⚡ effect on entry   ◷ deadline',
  ];
  return ['', ...lines.map((line) => `<font point-size="12">${line}</font>`), ''].join(BREAK);
}

function keys<N extends string>(
  sign: string,
  table: Readonly<Record<N, { line: string; meaning: string }>>,
  used: ReadonlySet<N>,
): string {
  return (Object.keys(table) as N[])
    .filter((name) => used.has(name))
    .map((name) => `<font color="${table[name].line}">${sign} ${table[name].meaning}</font>`)
    .join('   ');
}

/** The rows that name a state have a class in place of the link with which Graphviz wrote them. */
export function withNamedRows(svg: string): string {
  return svg.replace(
    /<g id="a_(edge[^"]+)"><a [^>]*xlink:title="([^"]*)"[^>]*>\n([\s\S]*?)<\/a>\n<\/g>/g,
    '<g id="$1" class="edge $2 named">\n$3</g>',
  );
}
