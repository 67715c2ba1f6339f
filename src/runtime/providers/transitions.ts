import { stateName } from '../../../machines/step.ts';
import type { ProviderRecord } from '../../contract/contract.ts';
import { isoTime } from '../../kernel/clock.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import type { ProviderKey } from '../../kernel/stream.ts';

/** State changes of one provider in its record. */
export const TRANSITIONS_MAX = 10;

type Transition = ProviderRecord['transitions'][number];

/**
 * The latest state changes of each provider, oldest first. A probe that leads back to the state
 * before it is no change.
 */
export class Transitions {
  private readonly byStream = new Map<string, Transition[]>();

  constructor(kernel: Kernel) {
    kernel.subscribe({ machine: 'provider' }, ({ stream, at, version }, snapshot) => {
      const state = stateName(snapshot);
      const known = version === 1 ? [] : (this.byStream.get(stream) ?? []);
      if (state === 'probing' || known.at(-1)?.state === state) return;
      const code = snapshot.context.error?.code ?? null;
      known.push({ at: isoTime(at), state, code });
      this.byStream.set(stream, known.slice(-TRANSITIONS_MAX));
    });
  }

  of(stream: ProviderKey): Transition[] {
    return this.byStream.get(stream) ?? [];
  }

  forget(stream: ProviderKey): void {
    this.byStream.delete(stream);
  }
}
