import type { RunCreated } from '../../../machines/events.ts';
import type { RunAsked } from '../../contract/contract.ts';
import { SvcError } from '../../errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { isRun } from '../../kernel/stream.ts';
import { type EventStore, toEvent } from '../../store/port.ts';
import { unknownRun } from './run-errors.ts';

/**
 * What a run was asked, with its images. The log may lack the texts: then it is what the log has,
 * with no messages. Throws run_unknown, not_ready.
 */
export async function runAsked(
  { kernel, store }: { kernel: Kernel; store: Pick<EventStore, 'readStream'> },
  run_id: string,
): Promise<RunAsked> {
  if (!isRun(run_id)) throw unknownRun(run_id);
  const instance = kernel.instance(run_id);
  if (instance !== undefined) {
    const { request, asked_as, metadata, created_at } = instance.snapshot.context;
    return { request, asked_as, metadata, created_at };
  }
  if (!kernel.isOpen) throw new SvcError('not_ready');
  const [first] = await store.readStream(run_id, 1, 1);
  if (first === undefined) throw unknownRun(run_id);
  const { request, asked_as = null, metadata = null, at } = toEvent(first) as RunCreated;
  return { request, asked_as, metadata, created_at: at };
}
