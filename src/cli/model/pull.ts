import { SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import type { ControlClient } from '../../transport/control/client.ts';
import type { Results } from '../../transport/control/protocol.ts';
import { connectDaemon } from '../terminal/connect/connect-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { INTERRUPTED, onInterrupt } from '../terminal/interrupt.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { bytes } from '../terminal/print/format.ts';
import { isTerminal, note } from '../terminal/print/output.ts';
import { askUser } from '../terminal/print/question.ts';
import { table } from '../terminal/print/table.ts';
import { fitFrom, modelsToBegin } from './fitting.ts';
import { printNewModel } from './new-model.ts';
import { PullProgress } from './pull-progress.ts';

/**
 * Downloads a model and prints its id.
 *
 * 1. Without a reference it offers models that fit.
 * 2. Ctrl-C cancels the download, unless another command waits for the same model.
 * 3. After Ctrl-C the command ends when the work has stopped. A second Ctrl-C ends it at once.
 */
export async function run({ args, flags, paths, json }: Context): Promise<number> {
  const input = {
    reference: args[0] ?? (await chooseModel(paths, json)),
    name: textFlag(flags, 'name') ?? null,
    sha256: textFlag(flags, 'sha256') ?? null,
    ...(flags.anyway === true ? { anyway: true } : {}),
  };
  const interrupt = onInterrupt();
  const progress = new PullProgress(isTerminal(2) ? 'line' : json ? 'none' : 'steps');
  const client = await connectDaemon(paths);
  try {
    const model = await follow(client, input, interrupt.signal, progress);
    if (model === null) {
      progress.end();
      note('Another command waits for the same model, so the download continues.');
      return INTERRUPTED;
    }
    progress.erase();
    printNewModel(model, json);
    return 0;
  } finally {
    progress.end();
    client.close();
    interrupt.release();
  }
}

/** Null if interrupted while the download continues for others. */
async function follow(
  client: ControlClient,
  input: Record<string, unknown>,
  stop: AbortSignal,
  progress: PullProgress,
): Promise<Results['model.pull'] | null> {
  const stream = client.stream('model.pull', input);
  const left = Promise.withResolvers<null>();
  let listening = false;
  const all = (async () => {
    for await (const record of stream) {
      const cancel = () =>
        void client
          .call('model.pull_cancel', { id: record.id }, { timeout_ms: CANCEL_MS })
          .then(({ cancelled }) => cancelled || left.resolve(null))
          .catch(() => {});
      if (!listening && stop.aborted) cancel();
      else if (!listening) stop.addEventListener('abort', cancel);
      listening = true;
      progress.show(record);
    }
    return stream.result;
  })();
  return Promise.race([all, left.promise]);
}

/** Above the longest configurable grace for the work. */
const CANCEL_MS = 660_000;

/**
 * The short name of a model that the user chooses from those that fit. Throws usage where there is
 * no one to ask, and if the user takes none of them.
 */
async function chooseModel(paths: Paths, json: boolean): Promise<string> {
  const offered = modelsToBegin(fitFrom(paths.config));
  const isAsked = !json && offered.length > 0 && isTerminal(0) && isTerminal(2);
  if (!json && offered.length > 0)
    note(
      table(
        ['TO DOWNLOAD ONE THAT FITS', 'SIZE', 'GOOD FOR'],
        offered.map(({ name, size_bytes, good_for }, index) => [
          `${isAsked ? `${index + 1}  ` : ''}svc model pull ${name}`,
          bytes(size_bytes),
          good_for,
        ]),
      ),
    );
  const names = offered.map(({ name }) => name);
  const numbers = names.map((_, index) => `${index + 1}`);
  const answers = [...numbers, 'none'];
  const answer = isAsked
    ? await askUser({ text: 'Which one?', answers, also: names, end: 'none' })
    : null;
  const chosen = names.find((name, index) => [numbers[index], name].includes(answer ?? ''));
  if (chosen !== undefined) return chosen;
  throw new SvcError('usage', 'svc model pull needs the name of a model.', {
    hint:
      offered.length === 0
        ? 'No model with a short name fits well. See all: svc model search'
        : `For example: svc model pull ${offered.at(-1)?.name}. All of them: svc model search`,
    details: { models: offered },
  });
}
