import {
  type Choice,
  choiceOf,
  type Edge,
  isFirst,
  isNamed,
  type Label,
  type Outline,
  type State,
} from '../../../machines/diagrams/outline.ts';
import { outcomeOf, outcomes, paintOf, paints, walks } from '../../../machines/diagrams/paint.ts';

/** The end of a line that begins at the left. */
export const BREAK = '<br align="left"/>';
const NAME_SIZE = 15;
const ROW_SIZE = 12;

/** A state as a card: its name, its effects, and a row per event. An arrow starts at its row. */
export function card(drawn: Outline, state: State): string {
  const { fill, line } = paints[paintOf(state)];
  const attributes = `style="rounded" bgcolor="${fill}" color="${line}"`;
  if (state.type === 'final') return doubled(state, attributes);
  const name = `<b>${mark(drawn, state)}${escaped(state.name)}</b>`;
  return table(
    [row(name, `port="name" align="center"`, NAME_SIZE), ...rows(drawn, state)],
    attributes,
  );
}

/** The events that a compound state accepts in all its inner states; null if there are none. */
export function sharedCard(drawn: Outline, state: State): string | null {
  const shared = rows(drawn, state);
  return shared.length === 0
    ? null
    : table(
        [row(`<i>any state in ${escaped(state.name)}</i>`, 'align="left"', ROW_SIZE), ...shared],
        `color="${paints[paintOf(state)].line}" style="rounded,dashed"`,
      );
}

/** The events that the machine accepts in any state. */
export function anyCard(drawn: Outline, edges: readonly Edge[]): string {
  return table(
    [
      row('<i>any state</i>', 'align="left"', ROW_SIZE),
      ...edges.flatMap((edge, index) => leads(drawn, edge, index)),
    ],
    'color="#777777" style="rounded,dashed"',
  );
}

/** Where each guard of a choice leads. Its rows have no arrows. */
export function choiceCard(drawn: Outline, { exits }: Choice): string {
  const leadsTo = exits.map(({ guard, to }) => {
    const asks = guard === null ? '' : `<font color="#555555">[${escaped(guard)}]</font> `;
    return row(`${asks}→ ${nameOf(drawn, to)}`, 'align="left"', ROW_SIZE);
  });
  return table(
    [row('◇', 'align="left"', ROW_SIZE), ...leadsTo],
    'color="#777777" bgcolor="#eeeeee"',
  );
}

/** The name of the row where an arrow starts. */
export function portOf(index: number): string {
  return `e${index}`;
}

/** The sign of a state that is entered first. */
export function mark(drawn: Outline, { id, parent }: State): string {
  return drawn.states.some((state) => state.id === parent && state.initial === id) ? '▸ ' : '';
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** A final state accepts nothing. Its border is doubled. */
function doubled({ name }: State, attributes: string): string {
  const content = row(`<b>${escaped(name)}</b>`, 'align="center"', NAME_SIZE);
  const inner = framed(content, attributes, 3);
  return `<${framed(`<tr><td port="name">${inner}</td></tr>`, attributes, 2)}>`;
}

function rows(drawn: Outline, state: State): string[] {
  return [
    ...(state.deadline === null
      ? []
      : [row(`<font color="#555555">◷ ${state.deadline}</font>`, 'align="left"', ROW_SIZE)]),
    ...state.effects.map((effect) =>
      row(`<font color="#6a3fa0">⚡ ${escaped(effect)}</font>`, 'align="left"', ROW_SIZE),
    ),
    ...state.loops.map((loop) => row(`↻ ${words(loop)}`, 'align="left"', ROW_SIZE)),
    ...drawn.edges.flatMap((edge, index) =>
      edge.from === state.id ? leads(drawn, edge, index) : [],
    ),
  ];
}

/** An event that leads to a choice has one row: its guards stand behind the choice. */
function leads(drawn: Outline, edge: Edge, index: number): string[] {
  const choice = choiceOf(drawn, edge);
  if (choice !== undefined && !isFirst(choice, edge)) return [];
  const label = choice === undefined ? edge : { ...edge, guard: null };
  if (!isNamed(drawn, edge))
    return [row(words(label), `port="${portOf(index)}" align="left"`, ROW_SIZE)];
  const target = choice === undefined ? `${BREAK}  → ${nameOf(drawn, edge.to)}${BREAK}` : ' → ◇';
  // Graphviz writes the id of a cell only with a link, and no class: see `withNamedRows`.
  const id = `id="${edgeIds(drawn)[index]}" href="#" title="${classOf(edge)}"`;
  return [row(words(label) + target, `${id} align="left"`, ROW_SIZE)];
}

/** Edges that differ only by their guard end in `|2`, `|3` and so on. */
export function edgeIds(drawn: Outline): string[] {
  const { states, edges } = drawn;
  const path = (id: string) => states.find((state) => state.id === id)?.path ?? '';
  const names = edges.map((edge) => {
    const to = choiceOf(drawn, edge) === undefined ? path(edge.to) : 'choice';
    return `edge:${path(edge.from)}|${edge.type}|${to}`;
  });
  return names.map((name, index) => {
    const nth = names.slice(0, index + 1).filter((other) => other === name).length;
    return nth === 1 ? name : `${name}|${nth}`;
  });
}

export function classOf(edge: Edge): string {
  return `transition ${edge.walk === null ? outcomeOf(edge) : `walked-${edge.walk}`}`;
}

/** `cancelling.by_stop` for a state in a box. */
function nameOf({ states }: Outline, id: string): string {
  const state = states.find((each) => each.id === id);
  return escaped(state?.path.split('.').slice(-2).join('.') ?? id);
}

function words(label: Label): string {
  const { event, guard, walk } = label;
  const colour = walk === null ? outcomes[outcomeOf(label)].line : walks[walk].line;
  const sign = walk === null ? '' : walks[walk].sign;
  const name = `<font color="${colour}">${sign}<b>${escaped(event)}</b></font>`;
  return guard === null ? name : `${name} <font color="#555555">[${escaped(guard)}]</font>`;
}

function row(content: string, attributes: string, size: number): string {
  return `<tr><td ${attributes}><font point-size="${size}">${content}</font></td></tr>`;
}

function table(content: readonly string[], attributes: string): string {
  return `<${framed(content.join(''), attributes, 3)}>`;
}

function framed(content: string, attributes: string, padding: number): string {
  const frame = `border="1" cellborder="0" cellspacing="0" cellpadding="${padding}"`;
  return `<table ${frame} ${attributes}>${content}</table>`;
}
