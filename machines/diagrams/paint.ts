import type { State } from './outline.ts';

/** The colours of the diagrams: the first tag of this table that a state carries decides, then whether it is final. */
export const paints = {
  ready: { fill: '#d8f0dc', line: '#2f7d3f', meaning: 'live and ready' },
  live: { fill: '#fdeecb', line: '#a87410', meaning: 'live, not ready' },
  active: { fill: '#d9e8fb', line: '#2b62a8', meaning: 'active' },
  stable: { fill: '#d8f0dc', line: '#2f7d3f', meaning: 'may stay as long as it likes' },
  final: { fill: '#e4e4e4', line: '#555555', meaning: 'final' },
  plain: { fill: '#ffffff', line: '#777777', meaning: 'leaves by a deadline of its own' },
} as const;

export type Paint = keyof typeof paints;

export function paintOf({ kind, tags }: Pick<State, 'kind' | 'tags'>): Paint {
  if (kind === 'final') return 'final';
  return (Object.keys(paints) as Paint[]).find((name) => tags.includes(name)) ?? 'plain';
}

/** How an edge is walked by the tests. */
export const walks = {
  real: { line: '#2f7d3f', style: 'solid', sign: '', meaning: 'walked in a real daemon' },
  kernel: {
    line: '#c05a00',
    style: 'dashed',
    sign: '○ ',
    meaning: '○ in the kernel and the fold only',
  },
  none: { line: '#c0282b', style: 'dotted', sign: '✗ ', meaning: '✗ not walked' },
} as const;

export type Walk = keyof typeof walks;
