import type { Edge, Label, Outline, State } from './outline.ts';
import { paintOf, paints, walks } from './paint.ts';

/** A state as a card: its name, what it does on entry, and a row for each event that it takes. An arrow begins at its row. */
export function card(drawn: Outline, state: State): string {
  const { fill, line } = paints[paintOf(state)];
  if (state.kind === 'final')
    return doubled(state, `style="rounded" bgcolor="${fill}" color="${line}"`);
  const rows = [
    row(`<b>${mark(drawn, state)}${escaped(state.name)}</b>`, `port="name" align="center"`, 13),
  ];
  return table(
    [...rows, ...takes(drawn, state)],
    `style="rounded" bgcolor="${fill}" color="${line}"`,
  );
}

/** What a state with others inside takes in all of them; null when that is nothing. */
export function sharedCard(drawn: Outline, state: State): string | null {
  const rows = takes(drawn, state);
  return rows.length === 0
    ? null
    : table(
        [row('<i>in each of these</i>', 'align="left"', 10), ...rows],
        `color="${paints[paintOf(state)].line}" style="rounded,dashed"`,
      );
}

/** What the machine takes in any state. */
export function anyCard(edges: readonly Edge[]): string {
  return table(
    [
      row('<i>any state</i>', 'align="left"', 12),
      ...edges.map((edge) => leads(edge, edges.indexOf(edge))),
    ],
    'color="#777777" style="rounded,dashed"',
  );
}

/** Name of the row that an arrow begins at. */
export function portOf(index: number): string {
  return `e${index}`;
}

export function mark(drawn: Outline, { id, parent }: State): string {
  return drawn.states.some((state) => state.id === parent && state.initial === id) ? '▸ ' : '';
}

export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** A final state takes nothing; its border is doubled. */
function doubled({ name }: State, attributes: string): string {
  const inner = `<table border="1" cellborder="0" cellspacing="0" cellpadding="3" ${attributes}>${row(`<b>${escaped(name)}</b>`, 'align="center"', 13)}</table>`;
  return `<<table border="1" cellborder="0" cellspacing="0" cellpadding="2" ${attributes}><tr><td port="name">${inner}</td></tr></table>>`;
}

function takes(drawn: Outline, state: State): string[] {
  return [
    ...(state.entry.length > 0 ? [row(`on entry ${doing(state.entry)}`, 'align="left"', 9)] : []),
    ...state.loops.map((loop) => row(words(loop), 'align="left"', 9)),
    ...drawn.edges.flatMap((edge, index) => (edge.from === state.id ? [leads(edge, index)] : [])),
  ];
}

function leads(edge: Edge, index: number): string {
  return row(words(edge), `port="${portOf(index)}" align="left"`, 9);
}

function words({ event, guard, actions, walk }: Label): string {
  const sign =
    walk === null || walk === 'real'
      ? ''
      : `<font color="${walks[walk].line}">${walks[walk].sign}</font>`;
  const parts = [`${sign}<b>${escaped(event)}</b>`];
  if (guard !== null) parts.push(`<font color="#2b62a8">[${escaped(guard)}]</font>`);
  if (actions.length > 0) parts.push(`<br align="left"/>  ${doing(actions)}<br align="left"/>`);
  return parts.join(' ');
}

function doing(actions: readonly string[]): string {
  return `<font color="#8a5a00">/ ${escaped(actions.join(', '))}</font>`;
}

function row(content: string, attributes: string, size: number): string {
  return `<tr><td ${attributes}><font point-size="${size}">${content}</font></td></tr>`;
}

function table(rows: readonly string[], attributes: string): string {
  return `<<table border="1" cellborder="0" cellspacing="0" cellpadding="3" ${attributes}>${rows.join('')}</table>>`;
}
