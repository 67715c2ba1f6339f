import { askHome } from '../terminal/connect/home.ts';
import type { Context } from '../terminal/context.ts';
import type { ProviderView } from '../terminal/offline/configured.ts';
import { duration } from '../terminal/print/format.ts';
import { note, print, printJson } from '../terminal/print/output.ts';
import { fields, table } from '../terminal/print/table.ts';

/** Without a daemon, lists the configured providers in the state `unknown`. */
export async function run({ paths, json }: Context): Promise<number> {
  const { answer, isRunning } = await askHome(paths, 'provider.list');
  const { providers } = answer;
  if (json) return printJson({ providers });
  const rows = providers.map((provider) => [
    `${provider.id}${provider.default ? ' *' : ''}`,
    provider.kind,
    provider.state,
    provider.models === null ? '-' : String(provider.models),
    provider.credential,
    provider.base_url ?? '-',
  ]);
  print(table(['PROVIDER', 'KIND', 'STATE', 'MODELS', 'CREDENTIAL', 'ADDRESS'], rows));
  const reasons = providers.flatMap((provider) => [
    ...reasonRow(provider.id, provider),
    // A daemon of an older version does not say which models fail.
    ...(provider.faulty_models ?? []).flatMap((one) =>
      reasonRow(`${provider.id}/${one.model}`, one),
    ),
  ]);
  if (isRunning && reasons.length > 0) print(`\n${fields(reasons)}`);
  if (providers.some((provider) => provider.default)) note('* answers runs that name no provider.');
  if (!isRunning)
    note(
      'The daemon is not running, so the state of these providers is unknown. ' +
        'Start it with: svc start',
    );
  return 0;
}

/** The details of a state: since when, when it is tried again, and why. */
function reasonRow(
  name: string,
  { state, since, reason, retry_at }: Pick<ProviderView, 'state' | 'since' | 'reason' | 'retry_at'>,
): [string, string][] {
  // An older daemon omits the time.
  const wait = retry_at == null ? Number.NaN : Date.parse(retry_at) - Date.now();
  if (reason === null && !(wait > 0)) return [];
  const age = since === null ? '' : ` for ${duration(Date.now() - Date.parse(since))}`;
  const again = wait > 0 ? ` Tried again in ${duration(wait)}.` : '';
  return [[name, `${state}${age}.${again}${reason === null ? '' : ` ${reason}`}`]];
}
