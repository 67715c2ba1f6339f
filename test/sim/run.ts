import { parseArgs } from 'node:util';
import { mutants } from './mutants.ts';
import { simulate } from './simulate.ts';
import { Stats } from './stats.ts';

/** `npm run sim`: see `USAGE`. */
const USAGE = `npm run sim -- [options]

  --seeds N       as many simulations; 1000 without it
  --from N        the first of their seeds; 1 without it
  --seed N        this simulation, with its trace
  --mutant NAME   with the bug of mutants.ts whose name has these words`;
const FAILURES_MOST = 20;
const PROGRESS_EACH = 5000;
const { seed, seeds, from, mutant } = readOrExit();

process.exitCode = seed === undefined ? await many(from, seeds) : await one(seed);

function readOrExit() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        seeds: { type: 'string', default: '1000' },
        from: { type: 'string', default: '1' },
        mutant: { type: 'string' },
        help: { type: 'boolean', short: 'h' },
      },
    });
    if (values.help === true) {
      console.log(USAGE);
      process.exit(0);
    }
    return {
      seed: values.seed === undefined ? undefined : whole('seed', values.seed),
      seeds: whole('seeds', values.seeds),
      from: whole('from', values.from),
      mutant: values.mutant === undefined ? null : mutantNamed(values.mutant),
    };
  } catch (error) {
    console.error(`${(error as Error).message}\nSee: npm run sim -- --help`);
    process.exit(2);
  }
}

function whole(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new Error(`--${name} takes a whole number from 1, not "${text}".`);
  return value;
}

function mutantNamed(words: string) {
  const found = mutants.find(({ name }) => name.includes(words));
  if (found === undefined)
    throw new Error(
      `No bug has "${words}" in its name. These are known:\n${mutants.map(({ name }) => `  ${name}`).join('\n')}`,
    );
  return found;
}

async function one(seed: number): Promise<number> {
  const { trace, violation, steps, hash } = await simulate(seed, { mutant, traced: true });
  process.stdout.write(`${trace.join('\n')}\n`);
  process.stdout.write(
    `seed ${seed}: ${steps} steps, hash ${hash.toString(16)}, ${violation === null ? 'all holds' : violation.message}\n`,
  );
  return violation === null ? 0 : 1;
}

async function many(from: number, seeds: number): Promise<number> {
  // Stack traces are only captured in a replay.
  Error.stackTraceLimit = 0;
  const stats = new Stats();
  const failed: string[] = [];
  const [begun, used] = [performance.now(), process.cpuUsage()];
  let [seed, stopped] = [from, false];
  process.once('SIGINT', () => {
    stopped = true;
  });
  for (; seed < from + seeds && !stopped && failed.length < FAILURES_MOST; seed += 1) {
    const outcome = await simulate(seed, { mutant });
    stats.add(outcome.stats);
    if (outcome.violation !== null) {
      failed.push(`npm run sim -- --seed ${seed}    ${outcome.violation.message.slice(0, 200)}`);
      process.stderr.write(`${failed.at(-1)}\n`);
    }
    if ((seed - from + 1) % PROGRESS_EACH === 0)
      process.stderr.write(`${seed - from + 1} seeds, ${failed.length} failed\n`);
  }
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(used);
  const done = seed - from;
  const perSecond = (done * 1e6) / (user + system);
  process.stdout.write(
    `${done} seeds from ${from} in ${seconds.toFixed(0)} s, ${(done / seconds).toFixed(0)} a second, ${perSecond.toFixed(0)} a second of one core\n`,
  );
  for (const [what, times] of [...stats.counts].sort())
    process.stdout.write(`  ${what.padEnd(30)} ${times}\n`);
  process.stdout.write(
    failed.length === 0 ? 'all holds\n' : `${failed.length} failed:\n${failed.join('\n')}\n`,
  );
  return failed.length === 0 ? 0 : 1;
}
