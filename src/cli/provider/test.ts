import { errors } from '../../errors.ts';
import { oneLine } from '../../logs/plain.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import { keyOfThisShell } from '../terminal/connect/shell-key.ts';
import type { Context } from '../terminal/context.ts';
import { print, printError, printJson } from '../terminal/print/output.ts';

/** Exit 0 if it answers, 5 if it refuses the credentials, 9 if it does not answer. */
export async function run({ paths, args, json }: Context): Promise<number> {
  const provider = await askDaemon(
    paths,
    'provider.test',
    { id: args[0] },
    { timeout_ms: TEST_MS },
  );
  const own = provider.state === 'unauthorised' ? keyOfThisShell(provider, paths) : null;
  if (json) printJson(provider);
  else if (own !== null) printError(own, false);
  else if (provider.state === 'available') print(oneLine(describeModels(provider)));
  else {
    const why = provider.reason === null ? '.' : `: ${provider.reason}`;
    print(oneLine(`${provider.id} is ${provider.state}${why}`));
  }
  if (provider.state === 'available') return 0;
  return provider.state === 'unauthorised'
    ? errors.provider_unauthorised.exit
    : errors.provider_unreachable.exit;
}

/** Above the daemon's limit for a probe. */
const TEST_MS = 70_000;

/** A provider without a list of models was perhaps not asked at all: a request would cost. */
function describeModels({ id, models }: { id: string; models: number | null }): string {
  if (models === null) return `${id} answers.`;
  if (models === 0)
    return `${id} lists no models. To see whether it answers: svc run "…" --provider ${id}`;
  return `${id} answers and has ${models} ${models === 1 ? 'model' : 'models'}.`;
}
