import { limitSpecs } from '../../limits.ts';
import { readChoice, readFields, readName, readNumber, wrong } from '../fields.ts';

export interface LifecycleInput {
  type: string;
  mode?: string;
  timeout_ms?: number;
}

/** What was sent, as a lifecycle event. Which events there are is for the machine to say. */
export function parseLifecycleInput(value: unknown): LifecycleInput {
  const fields = readFields(value, ['type', 'mode', 'timeout_ms']);
  const type = readName(fields, 'type', 80);
  if (type === null) throw wrong('type', 'type must name an event, such as stop_requested.');
  const mode = readChoice(fields, 'mode', ['drain', 'force']);
  const timeout_ms = readNumber(fields, 'timeout_ms', {
    min: 0,
    max: limitSpecs.drain_ms.max,
    whole: true,
  });
  return {
    type,
    ...(mode === null ? {} : { mode }),
    ...(timeout_ms === null ? {} : { timeout_ms }),
  };
}
