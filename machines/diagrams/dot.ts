import type { AnyStateMachine } from 'xstate';
import { type Edge, type Outline, outline, type State } from './outline.ts';
import { type Paint, paintOf, paints } from './paint.ts';

/** The machine in the language of Graphviz, for a picture that shows everywhere. */
export function dot(machine: AnyStateMachine): string {
  const drawn = outline(machine);
  const first = drawn.states.find(({ parent }) => parent === '')?.id ?? '';
  const lines = [
    `digraph ${drawn.name} {`,
    'graph [compound=true, bgcolor=white, pad=0.3, nodesep=0.5, ranksep=0.5, fontname="Courier", fontsize=13]',
    'node [shape=box, style="rounded,filled", fontname="Courier", fontsize=12, margin="0.12,0.06"]',
    'edge [fontname="Courier", fontsize=9, color="#666666", fontcolor="#222222", arrowsize=0.7]',
    `graph [label=<<b>${drawn.name}</b>${legend(drawn)}>, labelloc=t]`,
    ...level(drawn, ''),
    'start [shape=circle, fillcolor="#333333", color="#333333", width=0.12, fixedsize=true, label=""]',
    `start -> ${anchor(drawn, first)}${anchor(drawn, first) === first ? '' : ` [lhead=cluster_${first}]`}`,
    ...(drawn.edges.some(({ from }) => from === '') ? ['any [label="any state", style="rounded,dashed", color="#777777"]'] : []),
    ...bundle(drawn.edges).map((edges) => arrow(drawn, edges)),
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

function level(drawn: Outline, parent: string): string[] {
  return drawn.states.filter((state) => state.parent === parent).flatMap((state) => (state.kind === 'compound' ? cluster(drawn, state) : [node(drawn, state)]));
}

function cluster(drawn: Outline, state: State): string[] {
  const { line } = paints[paintOf(state)];
  return [
    `subgraph cluster_${state.id} {`,
    `graph [style="rounded", color="${line}", penwidth=1.4, label=<${lettering(drawn, state)}>, labelloc=t]`,
    ...level(drawn, state.id),
    '}',
  ];
}

function node(drawn: Outline, state: State): string {
  const { fill, line } = paints[paintOf(state)];
  return `${state.id} [label=<${lettering(drawn, state)}>, fillcolor="${fill}", color="${line}"${state.kind === 'final' ? ', peripheries=2' : ''}]`;
}

/** A state that its level begins with is marked. */
function lettering(drawn: Outline, { id, name, parent, inside }: State): string {
  const mark = drawn.states.some((state) => state.id === parent && state.initial === id) ? '▸ ' : '';
  return [`<b>${mark}${escaped(name)}</b>`, ...inside.map((line) => `<font point-size="9">${escaped(line)}</font>`)].join('<br/>');
}

/** Edges between the same two states share one arrow. */
function bundle(edges: readonly Edge[]): Edge[][] {
  const bundles = new Map<string, Edge[]>();
  for (const edge of edges) {
    const key = `${edge.from} ${edge.to}`;
    bundles.set(key, [...(bundles.get(key) ?? []), edge]);
  }
  return [...bundles.values()];
}

/** An arrow at a compound state ends at its border, though Graphviz wants a state inside. */
function arrow(drawn: Outline, edges: readonly Edge[]): string {
  const { from = '', to = '' } = edges[0] ?? {};
  const tail = from === '' ? 'any' : anchor(drawn, from);
  const head = anchor(drawn, to);
  const borders = [from !== '' && tail !== from && `ltail=cluster_${from}`, head !== to && `lhead=cluster_${to}`].filter(Boolean);
  return `${tail} -> ${head} [${[...borders, `label=<${edges.map(caption).join('<br align="left"/>')}<br align="left"/>>`].join(', ')}]`;
}

function caption({ event, guard, actions }: Edge): string {
  const lines = [`<b>${escaped(event)}</b>`];
  if (guard !== null) lines.push(`<font color="#2b62a8">[${escaped(guard)}]</font>`);
  if (actions.length > 0) lines.push(`<font color="#8a5a00">/ ${escaped(actions.join(', '))}</font>`);
  return lines.map((line) => ` ${line} `).join('<br align="left"/>');
}

/** A state without others inside: the state itself, or the one that it begins with. */
function anchor(drawn: Outline, id: string): string {
  const initial = drawn.states.find((state) => state.id === id)?.initial;
  return initial === null || initial === undefined ? id : anchor(drawn, initial);
}

function legend(drawn: Outline): string {
  const used = new Set<Paint>(drawn.states.filter(({ kind }) => kind !== 'compound').map(paintOf));
  const entries = (Object.keys(paints) as Paint[]).filter((name) => used.has(name));
  return entries.map((name) => `<br/><font point-size="10" color="${paints[name].line}">■ ${paints[name].meaning}</font>`).join('');
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
