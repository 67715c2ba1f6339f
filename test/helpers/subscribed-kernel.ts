import type { Kernel } from '../../src/kernel/kernel.ts';

type Hear = (event: object, snapshot: object) => void;

/** A kernel that has nothing but those who subscribe. `happen` gives them an event. */
export function subscribedKernel() {
  const subscribers: [machine: string, hear: Hear][] = [];
  const kernel = {
    subscribe: (which: string | { machine?: string }, hear: Hear) =>
      subscribers.push([typeof which === 'string' ? which : (which.machine ?? ''), hear]),
    commits: { subscribe: (hear: (ms: number) => void) => hear(20) },
  } as unknown as Kernel;
  /** `isFailing`: whether the machine is in a state with that tag. */
  const happen = (
    type: string,
    { context = {}, data = {}, at = 0, isFailing = false }: Partial<Happening> = {},
  ) => {
    const snapshot = { context, hasTag: (tag: string) => isFailing && tag === 'failing' };
    for (const [machine, hear] of subscribers)
      if (machine === 'all' || machine === type.split('.')[0])
        hear({ type, at, data, stream: 'stream_1' }, snapshot);
  };
  return { kernel, happen };
}

interface Happening {
  context: object;
  data: object;
  at: number;
  isFailing: boolean;
}
