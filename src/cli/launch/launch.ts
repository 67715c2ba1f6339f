import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { constants, homedir } from 'node:os';
import { join } from 'node:path';
import { whyUnusable } from '../../causes.ts';
import { suggest } from '../../config/suggest.ts';
import { hasCode, SvcError } from '../../errors.ts';
import type { Paths } from '../../home/paths.ts';
import { platform } from '../../home/platform.ts';
import { oneLine } from '../../logs/plain.ts';
import { checkModel, nextTurn } from '../chat/who.ts';
import { listModels } from '../model/list-models.ts';
import { ensureDaemon } from '../run/ensure-daemon.ts';
import { askDaemon } from '../terminal/connect/ask-daemon.ts';
import type { Context } from '../terminal/context.ts';
import { absoluteModel } from '../terminal/parse/absolute-model.ts';
import { textFlag } from '../terminal/parse/flag-values.ts';
import { isTerminal, note, print, warn } from '../terminal/print/output.ts';
import { askYesOrNo } from '../terminal/print/question.ts';
import { type Program, programs, type Target } from './programs.ts';

/**
 * Starts a third-party program, which then calls the daemon, or writes its configuration. The
 * program gets a token with the scope `run`, and sees only its own runs. The token of a started
 * program ends with it.
 */
export async function run(context: Context): Promise<number> {
  const { paths, args, flags } = context;
  const [name = '', ...more] = args;
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) throw unknownProgram(name);
  await ensureDaemon(context);
  const isConfig = flags.config === true;
  const { start } = program;
  if (!isConfig && start === undefined)
    throw new SvcError('usage', `${name} reads the server from its own configuration alone.`, {
      hint: `svc launch ${name} --config`,
    });
  const model = await chooseModel(textFlag(flags, 'model'), program, paths);
  const { http } = (await askDaemon(paths, 'status')).addresses;
  if (http === null) throw new SvcError('not_ready', 'The daemon does not listen on HTTP.');
  const target = (token: string): Target => ({ url: http, token, ...model });
  if (isConfig) return configure(name, program, target, context);
  const made = await temporaryToken(name, paths);
  try {
    return await follow(name, program, start?.(target(made.token)), more);
  } finally {
    await askDaemon(paths, 'token.revoke', { name: made.name }).catch(() => {});
  }
}

function unknownProgram(name: string): SvcError {
  const near = suggest(name, Object.keys(programs));
  const all = Object.keys(programs).join(', ');
  return new SvcError('usage', `svc knows no program ${JSON.stringify(name)}.`, {
    hint:
      near === null ? `There are: ${all}` : `Did you mean: svc launch ${near}? There are: ${all}`,
  });
}

/** Warns about a model that does not fit. Throws the error of a run with this model. */
async function chooseModel(
  given: string | undefined,
  { context_tokens: needed }: Program,
  paths: Paths,
): Promise<Pick<Target, 'model' | 'context_tokens'>> {
  const next = await nextTurn(given === undefined ? {} : { model: absoluteModel(given) }, paths);
  const problem = await checkModel(next, paths);
  if (problem !== null) warn(oneLine(problem));
  const { models } = await listModels(paths);
  const known = models.find((each) => each.provider === next.provider && each.name === next.model);
  const model = `${next.provider}/${next.model}`;
  const doubt = (what: string) =>
    warn(oneLine(`${model} ${what}. Another one: svc launch <program> --model <provider/name>`));
  const { capabilities = [], context_length: context_tokens = null } = known ?? {};
  // A server elsewhere does not report the capabilities of its models.
  if (capabilities.length === 0)
    note(oneLine(`svc does not know whether ${model} calls tools. An agent needs them.`));
  else if (!capabilities.includes('tools')) doubt('calls no tools, and an agent needs them');
  if (context_tokens !== null && context_tokens < needed)
    doubt(`has a context of ${context_tokens} tokens, and this program needs about ${needed}`);
  return { model, context_tokens };
}

/** A token that ends with this process, also when that is killed. */
async function temporaryToken(
  program: string,
  paths: Paths,
): Promise<{ name: string; token: string }> {
  const { pid } = process;
  return askDaemon(paths, 'token.create', {
    name: `launch-${program}-${pid}-${randomBytes(3).toString('hex')}`,
    scope: 'run',
    process: { pid, process_start: platform.processStart(pid) },
  });
}

/** Resolves with the exit code of the program. Signals of the terminal reach it by themselves. */
function follow(
  name: string,
  { install }: Program,
  { command, args, env }: ReturnType<NonNullable<Program['start']>> = NOTHING,
  more: readonly string[],
): Promise<number> {
  const words = platform.program([command, ...args, ...more]);
  const child = spawn(words.program, words.args, {
    ...words.options,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  const ignore = () => {};
  process.on('SIGINT', ignore);
  return new Promise<number>((resolve, reject) => {
    child.once('error', (cause: NodeJS.ErrnoException) =>
      reject(
        new SvcError(
          'usage',
          cause.code === 'ENOENT'
            ? `There is no program ${command} on the PATH.`
            : `${command} cannot be started: ${whyUnusable(cause)}.`,
          { cause, hint: `Install ${name} first: ${install}` },
        ),
      ),
    );
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    );
  }).finally(() => process.off('SIGINT', ignore));
}

const NOTHING = { command: '', args: [], env: {} };

/** Shows the changes, and writes them into a JSON file. */
async function configure(
  name: string,
  { config: { file, values, text } }: Program,
  target: (token: string) => Target,
  { paths, flags }: Context,
): Promise<number> {
  const path = join(homedir(), ...file);
  if (values === undefined) {
    const { token } = await lastingToken(name, paths);
    note(oneLine(`Add this to ${path}. Its token is in ${TOKEN_VARIABLE} where it names that:`));
    print(text?.(target(token)) ?? '');
    return 0;
  }
  note(oneLine(`These values of ${path} change:`));
  for (const [at, value] of values(target('<token>')))
    print(oneLine(`+ ${at.join('.')}: ${JSON.stringify(value)}`));
  if (flags.yes !== true && !(await isAgreed())) return 0;
  const { token } = await lastingToken(name, paths);
  const { editUserFile } = await import('../../config/user-file.ts');
  await editUserFile(path, () => values(target(token)), `${paths.config}.lock`);
  note(oneLine(`Written. Its token is ${name}: svc token revoke ${name} ends it.`));
  return 0;
}

const TOKEN_VARIABLE = 'SVC_TOKEN';

async function lastingToken(name: string, paths: Paths): Promise<{ token: string }> {
  return askDaemon(paths, 'token.create', { name, scope: 'run' }).catch((error: unknown) => {
    if (!hasCode(error, 'token_exists')) throw error;
    throw new SvcError('token_exists', `${name} has a token already, which is shown only once.`, {
      hint: `To make another one: svc token revoke ${name}, then this command again.`,
    });
  });
}

async function isAgreed(): Promise<boolean> {
  if (!isTerminal(0) || !isTerminal(2))
    throw new SvcError('usage', 'Nothing was written.', { hint: 'To write it, add: --yes' });
  return askYesOrNo('Write them?');
}
