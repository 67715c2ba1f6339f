import { shownName } from '../../../../machines/failover.ts';
import type { StatusMore } from '../../../operations/daemon.ts';
import { bytes, duration, stateText } from '../../terminal/print/format.ts';

type Model = StatusMore['models'][number];
type Provider = StatusMore['failing'][number];

/** The rows of `svc status`: who waits for the user, models in memory, providers that fail. */
export function workRows({
  waiting = 0,
  models = [],
  tools = [],
  failing = [],
}: Partial<StatusMore>): [string, string][] {
  return [
    ...(waiting === 0 ? [] : [['waiting', waitingText(waiting)] satisfies [string, string]]),
    ...models.map((model): [string, string] => ['model', modelText(model)]),
    ...tools.map(({ name, state, reason }): [string, string] => [
      'tools',
      `${name} ${stateText(state)}${reason === null ? '' : `: ${reason}`}`,
    ]),
    ...failing.map((provider): [string, string] => ['provider', providerText(provider)]),
  ];
}

function waitingText(count: number): string {
  return `${count} ${count === 1 ? 'waits' : 'wait'} for you: svc approvals list`;
}

function modelText({ id, purpose, state, runs, memory_bytes, gpu }: Model): string {
  const answers = runs > 0 ? `, ${runs} run${runs === 1 ? '' : 's'}` : '';
  const work = purpose === 'answers' ? answers : `, for ${purpose}`;
  const memory = memory_bytes === null ? '' : `, ${bytes(memory_bytes)}`;
  // An older daemon does not say it.
  const place = gpu == null ? '' : `, on ${gpu}`;
  return `${shownName(id)} ${stateText(state)}${work}${memory}${place}`;
}

function providerText({ id, state, reason, retry_at }: Provider): string {
  const wait = retry_at === null ? Number.NaN : Date.parse(retry_at) - Date.now();
  const again = wait > 0 ? `, tried again in ${duration(wait)}` : '';
  return `${id} ${state}${again}${reason === null ? '' : `: ${reason}`}`;
}
