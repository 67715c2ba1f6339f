import { askDaemon } from '../connect/ask-daemon.ts';
import { whenNotRunning } from '../connect/not-running.ts';
import type { Context } from '../context.ts';
import { ago, duration, shortened } from '../print/format.ts';
import { note, print, printJson } from '../print/output.ts';
import { table } from '../print/table.ts';
import type { ProviderShown } from './configured.ts';

const REASON_WIDTH = 60;

/** Without a daemon, lists the configured providers in the state `unknown`. */
export async function run({ paths, json }: Context): Promise<number> {
  const { providers, asked } = await askDaemon(paths, 'provider.list').then(
    ({ providers }) => ({ providers, asked: true }),
    whenNotRunning(async () => ({ providers: await configured(paths), asked: false })),
  );
  if (json) {
    printJson({ providers });
    return 0;
  }
  const rows = providers.flatMap((provider) => [
    [
      `${provider.id}${provider.default ? ' *' : ''}`,
      provider.kind,
      provider.state,
      provider.since === null ? '-' : ago(provider.since),
      provider.models === null ? '-' : String(provider.models),
      provider.credential,
      provider.base_url ?? '-',
      shortened(reasonOf(provider), REASON_WIDTH),
    ],
    ...faultyRows(provider),
  ]);
  print(
    table(
      ['PROVIDER', 'KIND', 'STATE', 'SINCE', 'MODELS', 'CREDENTIAL', 'ADDRESS', 'REASON'],
      rows,
    ),
  );
  if (providers.some((provider) => provider.default)) note('* answers runs that name no provider.');
  if (!asked)
    note(
      'The daemon is not running, so the state of these providers is unknown. ' +
        'Start it with: svc start',
    );
  return 0;
}

/** Imported here: a daemon that answers has read the configuration already. */
async function configured(paths: Context['paths']): Promise<ProviderShown[]> {
  const { configuredProviders } = await import('./configured.ts');
  return configuredProviders(paths);
}

/** A daemon of an older version does not say which models fail. */
function faultyRows({ id, kind, faulty_models = [] }: ProviderShown): string[][] {
  return faulty_models.map((one) => {
    const why = shortened(reasonOf(one), REASON_WIDTH);
    return [`${id}/${one.model}`, kind, one.state, ago(one.since), '-', '-', '-', why];
  });
}

function reasonOf({ reason, retry_at }: Pick<ProviderShown, 'reason' | 'retry_at'>): string {
  // A daemon of an older version says no time.
  const wait = retry_at == null ? Number.NaN : Date.parse(retry_at) - Date.now();
  const again = wait > 0 ? `Tried again in ${duration(wait)}. ` : '';
  return `${again}${reason ?? (again === '' ? '-' : '')}`;
}
