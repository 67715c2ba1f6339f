import { type Outcome, rowOf } from '../../src/contract/run-events.ts';
import type { MachineEvent } from '../events.ts';
import type { Label, State } from './outline.ts';

/** The colours of states: the first of these tags that a state has, or `final`. */
export const paints = {
  ready: { fill: '#d8f0dc', line: '#2f7d3f', meaning: 'live and ready' },
  live: { fill: '#fdeecb', line: '#a87410', meaning: 'live, not ready' },
  active: { fill: '#d9e8fb', line: '#2b62a8', meaning: 'active' },
  stable: { fill: '#d8f0dc', line: '#2f7d3f', meaning: 'stable' },
  final: { fill: '#e4e4e4', line: '#555555', meaning: 'final' },
  plain: { fill: '#ffffff', line: '#777777', meaning: 'other' },
} as const;

export type Paint = keyof typeof paints;

export function paintOf({ type, tags }: Pick<State, 'type' | 'tags'>): Paint {
  if (type === 'final') return 'final';
  return (Object.keys(paints) as Paint[]).find((name) => tags.includes(name)) ?? 'plain';
}

/** The colours of arrows in the diagrams for readers: what the event means for the machine. */
export const outcomes = {
  success: { line: '#2f7d3f', meaning: 'success' },
  failure: { line: '#c0282b', meaning: 'failure' },
  cancel: { line: '#b06a00', meaning: 'cancel, stop or time out' },
  other: { line: '#555555', meaning: 'other' },
} as const satisfies Record<Outcome, unknown>;

/** Of events that are no events of a run. */
const OUTCOMES: Readonly<Partial<Record<MachineEvent['type'], Outcome>>> = {
  'daemon.failed': 'failure',
  'daemon.start_deadline_passed': 'failure',
  'daemon.drain_deadline_passed': 'failure',
  'daemon.close_deadline_passed': 'failure',
  'daemon.store_filled': 'failure',
  'daemon.disk_stalled': 'failure',
  'daemon.store_freed': 'success',
  'daemon.disk_resumed': 'success',
  'daemon.stop_requested': 'cancel',
  'daemon.stopped': 'cancel',
  'provider.answered': 'success',
  'provider.probe_succeeded': 'success',
  'provider.probe_failed': 'failure',
  'provider.faulted': 'failure',
  'provider.removed': 'cancel',
  'engine.model_loaded': 'success',
  'engine.load_failed': 'failure',
  'engine.deadline_passed': 'failure',
  'engine.exited': 'failure',
  'engine.stop_requested': 'cancel',
  'pull.completed': 'success',
  'pull.attempt_failed': 'failure',
  'pull.failed': 'failure',
  'pull.cancel_requested': 'cancel',
  'pull.cancelled': 'cancel',
  'lease.granted': 'success',
  'lease.renewed': 'success',
  'lease.renewal_failed': 'failure',
  'lease.lost': 'failure',
  'lease.leave_requested': 'cancel',
  'lease.left': 'cancel',
};

export function outcomeOf({ type }: Pick<Label, 'type'>): Outcome {
  return rowOf(type)?.outcome ?? OUTCOMES[type as MachineEvent['type']] ?? 'other';
}

/** The colours of arrows in the diagrams for maintainers: how the tests walk them. */
export const walks = {
  real: { line: '#2f7d3f', style: 'solid', sign: '', meaning: 'walked in a real daemon' },
  kernel: {
    line: '#c05a00',
    style: 'dashed',
    sign: '○ ',
    meaning: '○ walked in the kernel and the fold only',
  },
  none: { line: '#c0282b', style: 'dotted', sign: '✗ ', meaning: '✗ not walked' },
} as const;

export type Walk = keyof typeof walks;
