import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';
import { ask as get } from '../torture/http.ts';

const test = suite<{ home: PausedHome }>('what is kept of runs');

test.before.each(async (context) => {
  context.home = await makePausedHome({ SVC_LIMIT_PRUNE_EVERY_MS: '1000' });
});
test.after.each(({ home }) => home.close());

function configure({ paths }: PausedHome, history: object): void {
  writeFileSync(
    paths.config,
    JSON.stringify({ ...JSON.parse(readFileSync(paths.config, 'utf8')), history }),
  );
}

/** A run from its prompt to the end of its answer, as a user has it. */
async function ask(home: PausedHome, prompt: string, answer: readonly string[]): Promise<string> {
  const run = home.spawn(['run', prompt]);
  await waitFor('the provider is asked', () => home.server.streams.size === 1);
  for (const piece of answer) home.server.say(piece);
  home.server.finish();
  const { stdout, stderr } = await run.ended;
  assert.is(stdout.trim(), answer.join(''), stderr);
  return stdout;
}

/** Every file and folder below this one. */
function walk(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? [path, ...walk(path)] : [path];
  });
}

/**
 * What is read of a file; null where it is gone by now, as a daemon that lives moves its temporary
 * files to their place.
 */
function ifThere<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

/**
 * Files of the home that hold one of these; not the configuration, nor the reserve, whose bytes are
 * random and so hold every short word.
 */
function holding({ folder, paths }: PausedHome, words: readonly string[]): string[] {
  const files = walk(folder).filter(
    (path) =>
      path !== paths.config &&
      !path.endsWith('events.reserve') &&
      ifThere(() => statSync(path))?.isFile(),
  );
  return files.filter((path) => {
    const content = ifThere(() => readFileSync(path));
    return words.some((word) => content?.includes(word));
  });
}

test('prompts and answers that are omitted are in no file, while the client saw them', async ({
  home,
}) => {
  configure(home, { prompts: 'omit', outputs: 'omit' });
  await ask(home, 'tell me about Rumpelstiltskin', ['He is ', 'Zwerg', 'nase.']);
  assert.equal(holding(home, ['Rumpelstiltskin', 'Zwerg', 'nase']), []);
  const listed = await home.svc(['runs', 'list', '--json']);
  assert.match(listed.stdout, 'completed');
  await home.svc(['stop']);
  assert.equal(holding(home, ['Rumpelstiltskin', 'Zwerg', 'nase']), []);
  assert.is((await home.svc(['doctor'])).stdout.includes('chain and database are intact'), true);
});

test('what a pattern matches is in no file, also when the answer comes in pieces', async ({
  home,
}) => {
  configure(home, { redact: ['thunderstorm[0-9]+'] });
  await ask(home, 'my password is thunderstorm2000, is it good?', [
    'No: thunder',
    'storm20',
    '00 is bad.',
  ]);
  await home.svc(['stop']);
  assert.equal(
    holding(home, ['thunder', 'storm20']).filter((path) => !path.includes('cache')),
    [],
  );
});

test('a run that is cut off without its prompt in the log ends, and says why', async ({ home }) => {
  configure(home, { prompts: 'omit' });
  const run = home.spawn(['run', 'a secret']);
  await waitFor('the provider is asked', () => home.server.streams.size === 1);
  process.kill(Number(JSON.parse(readFileSync(home.paths.runtime, 'utf8')).pid), 'SIGKILL');
  const { code, stderr } = await run.ended;
  assert.is(code, 10, stderr);
  const { stdout } = await home.svc(['runs', 'list', '--json']);
  assert.match(stdout, 'content_not_kept');
});

test('runs beyond the bounds go while the daemon runs, and their text with them', async ({
  home,
}) => {
  configure(home, { keep_bytes: 1024 * 1024 });
  for (let index = 0; index < 4; index += 1)
    await ask(home, `remember Rumpelstiltskin ${index}`, [
      `${index}x`.repeat(100_000),
      `${index}y`.repeat(100_000),
    ]);
  await waitFor('the first are gone', () => !holding(home, ['Rumpelstiltskin 0']).length);
  // One more may go between the two answers.
  await waitFor('the metric counts the runs of the list', async () => {
    const { stdout } = await home.svc(['runs', 'list', '--json']);
    assert.match(stdout, 'Rumpelstiltskin 3');
    const { length } = JSON.parse(stdout).runs;
    assert.ok(length < 4);
    const { text } = await get(home, '/metrics');
    return text.includes(`\nsvc_runs{state="finished"} ${length}\n`);
  });
  await home.svc(['stop']);
  assert.match((await home.svc(['doctor'])).stdout, 'chain and database are intact');
});

test('every file of a used home is for its owner only, whatever the mode mask is', async ({
  home,
}) => {
  const mask = process.umask(0);
  try {
    await ask(home, 'hello', ['hi']);
    await home.svc(['status']);
    const others = walk(home.folder).filter(
      (path) =>
        path !== home.paths.config && ((ifThere(() => statSync(path))?.mode ?? 0) & 0o077) !== 0,
    );
    assert.equal(others, []);
    await home.svc(['stop']);
  } finally {
    process.umask(mask);
  }
});

test.run();
