import { setTimeout as sleep } from 'node:timers/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Home } from '../helpers/svc.ts';
import { checkSame, type Followed, followAnswer, once } from '../torture/answers.ts';
import { enginePid, type Life, serve } from '../torture/daemon.ts';
import { ask } from '../torture/http.ts';
import { signalIfThere, withLocalModels } from './local-life.ts';

/**
 * Local answers whose daemon or engine is killed with SIGKILL: the whole of each is as if nothing
 * had happened.
 */
const test = suite<Context>('local answers that are cut off');

interface Context {
  home: Home;
  life: Life;
}

withLocalModels(test);

const PROMPT = 'Tell me all of it: 日本語 🙂';
const TOKENS = 240;
const ASK = { prompt: PROMPT, model: 'slow', max_tokens: TOKENS };
const SAMPLED = { ...ASK, temperature: 0.8, seed: 2 };

/** As many as are answered at one time. The last two say what becomes of them. */
const REQUESTS = [
  { ...ASK, temperature: 0, seed: 1 },
  { ...ASK, temperature: 1.5, seed: 3, prompt: `${PROMPT} 3` },
  { ...SAMPLED, recovery: 'restart' },
  { ...SAMPLED, recovery: 'end' },
];
const [RESTART, END] = [2, 3];

/** The undisturbed answers to them. */
let whole: Followed[];

test.before(async ({ home }) => {
  const [greedy, wild, sampled] = await Promise.all(
    REQUESTS.slice(0, END).map((request) => followAnswer(home, request)),
  );
  whole = [greedy, wild, sampled, sampled] as Followed[];
  for (const { token_ids } of whole) assert.is(token_ids.length, TOKENS);
});

/**
 * Asks and cuts until every cut came before the end of the answer: a busy machine may hear its
 * tokens when it is complete. Each answer is looked at.
 */
async function untilInTime(part: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX; turn += 1) if (await part()) return;
  throw new Error(`no answer was cut in time in ${TURNS_MAX} turns`);
}
const TURNS_MAX = 10;

async function reborn(context: Context): Promise<void> {
  await context.life.ended;
  context.life = await serve(context.home);
}

// Tokens of each answer that were heard by then. Far from its end.
for (const cut of [1, 90])
  test(`by the death of the daemon after ${cut} tokens, each goes on as its policy says, in their order`, (context) =>
    untilInTime(async () => {
      const counts = REQUESTS.map(() => 0);
      const before = await Promise.all(
        REQUESTS.map((request, index) =>
          followAnswer(context.home, request, (count) => {
            counts[index] = count;
            if (counts.every((heard) => heard >= cut)) context.life.child.kill('SIGKILL');
          }),
        ),
      );
      const isComplete = before.some(({ record }) => record !== null);
      // All were complete before the daemon heard of the kill.
      if (isComplete) context.life.child.kill('SIGKILL');
      await reborn(context);
      const after = await Promise.all(before.map(({ id }) => followAnswer(context.home, id)));
      const ended = after[END] as Followed;
      const isInTime = after.slice(0, END).every(({ events }) => events.includes('run.recovered'));
      for (const [index, heard] of after.slice(0, END).entries()) {
        checkSame(heard, whole[index] as Followed);
        if (index !== RESTART) assert.ok(heard.text.startsWith(before[index]?.text ?? '?'));
      }
      if (!isInTime || ended.record?.state === 'completed') return false;
      for (const { events } of after.slice(0, END))
        assert.is(events.filter((event) => event === 'run.recovered').length, 1);
      const { runs } = await context.life.ask((client) => client.call('run.list'));
      const resumed = runs.slice(0, REQUESTS.length).filter(({ id }) => id !== ended.id);
      const started = resumed.map(({ started_at }) => started_at ?? '');
      assert.equal(started, started.toSorted().reverse(), 'the newest began last');
      assert.is(after[RESTART]?.record?.attempts, 2);
      assert.is(ended.record?.state, 'interrupted');
      assert.is(ended.record?.error?.code, 'run_interrupted');
      assert.ok(ended.text.length > 0 && ended.text.startsWith(before[END]?.text ?? '?'));
      assert.ok(whole[END]?.text.startsWith(ended.text));
      assert.is(ended.record?.output, ended.text);
      return true;
    }));

test('by the death of the engine, go on while the daemon never stops', async ({ home, life }) => {
  const seen = await readyWhile(home, () =>
    untilInTime(async () => {
      const engine = await enginePid(life);
      const kill = once(90, () => signalIfThere(engine, 'SIGKILL'));
      const heard = await Promise.all(
        [...REQUESTS.slice(0, RESTART), SAMPLED].map((request) =>
          followAnswer(home, request, kill),
        ),
      );
      for (const [index, one] of heard.entries()) checkSame(one, whole[index] as Followed);
      return heard.every(({ events }) => events.includes('run.suspended'));
    }),
  );
  assert.equal(seen, [200], `it was ready all the time: ${life.printed().slice(-2000)}`);
  const status = await life.ask((client) => client.call('status'));
  assert.is(status.pid, life.pid);
});

test('by daemon, engine and daemon in turn, three times in one answer, is still the same', async (context) => {
  const { home } = context;
  const killAt = (cut: number) => once(cut, () => context.life.child.kill('SIGKILL'));
  await untilInTime(async () => {
    const { id } = await followAnswer(home, SAMPLED, killAt(20));
    await reborn(context);
    let killed: Promise<unknown> = Promise.resolve();
    const atDaemon = killAt(150);
    const atEngine = once(80, () => {
      // A daemon that is killed before it says the pid is one more try.
      killed = enginePid(context.life).then(
        (pid) => signalIfThere(pid, 'SIGKILL'),
        () => undefined,
      );
    });
    await followAnswer(home, id, (count) => {
      atEngine(count);
      atDaemon(count);
    });
    await killed;
    context.life.child.kill('SIGKILL');
    await reborn(context);
    const last = await followAnswer(home, id);
    checkSame(last, whole[RESTART] as Followed);
    const count = (type: string) => last.events.filter((event) => event === type).length;
    return count('run.recovered') === 2 && count('run.suspended') === 1;
  });
});

/** Polls /readyz while the work lasts. Returns the answers and the errors of connections. */
async function readyWhile(home: Home, work: () => Promise<void>): Promise<(number | string)[]> {
  const seen = new Set<number | string>();
  let over = false;
  const status = async () => (await ask(home, '/readyz')).status;
  const asking = (async () => {
    while (!over) {
      seen.add(await status().catch(({ message }: Error) => message));
      await sleep(POLL_MS);
    }
  })();
  try {
    await work();
  } finally {
    over = true;
    await asking;
  }
  return [...seen];
}
/** A poll without a pause takes as much of a processor as the engine. */
const POLL_MS = 25;

test.run();
