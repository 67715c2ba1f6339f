import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makeGguf } from '../fixtures/models/make-gguf.ts';
import { RealFleet, SHORT } from '../helpers/fleet.ts';
import { postgresPrograms } from '../helpers/postgres.ts';
import { waitFor } from '../helpers/wait.ts';
import { checkSame, type Followed, followAnswer } from '../torture/answers.ts';
import { ask } from '../torture/http.ts';
import { ENVIRONMENT } from './local-life.ts';

/** Three daemons of the built program. The second has another model file under the same name. */
const test = suite('a local answer in a fleet');
const on = postgresPrograms === null ? test.skip : test;
let fleet: RealFleet;

test.before(async () => {
  if (postgresPrograms === null) return;
  fleet = await RealFleet.start({
    nodes: 3,
    base_url: 'http://127.0.0.1:9/v1',
    max_runs: 1,
    env: ENVIRONMENT,
    limits: { ...SHORT, lease_ms: LEASE_MS },
    prepare: ({ paths }, index) => {
      mkdirSync(paths.models, { recursive: true, mode: 0o700 });
      const seed = index === 1 ? 4 : 3;
      const shape = { context: 2048, width: 128, layers: 10 };
      makeGguf(join(paths.models, 'slow.gguf'), { ...shape, template: null, seed });
    },
  });
});
test.after(() => fleet?.close());

/** A third of it is over when it is renewed. */
const LEASE_MS = 6000;
const REQUEST = { prompt: 'Tell me all of it', model: 'local/slow', max_tokens: 700 };
const SAMPLED = { ...REQUEST, temperature: 0.8, seed: 2 };

/** An answer of the third node: on a busy machine a node may give a new run to another one. */
const answerOf = async (third: string): Promise<Followed> => {
  for (;;) {
    const whole = await followAnswer(fleet.home(2), SAMPLED);
    const log = await writers(whole.record?.id ?? '');
    if (log.length > 0 && log.every(({ boot_id }) => boot_id === third)) return whole;
  }
};

/**
 * Kills this node in the middle of an answer. It stops the node first, and looks: the answer may be
 * complete, or another node may have the run.
 */
const cutOff = async (node: number): Promise<string> => {
  const { child } = fleet.life(node);
  const mine = `(select node_id from svc_nodes where boot_id = '${await fleet.bootOf(node)}')`;
  for (;;) {
    const started = await ask(fleet.home(node), '/v1/runs', { method: 'POST', body: SAMPLED });
    const { id } = started.json;
    await waitFor('a part of the answer', () => isTrue(`finished or ${HAS_OUTPUT}`, id));
    child.kill('SIGSTOP');
    if (await isTrue(`not finished and node_id = ${mine} and ${HAS_OUTPUT}`, id)) {
      await fleet.kill(node);
      return id;
    }
    child.kill('SIGCONT');
    await followAnswer(fleet.home(1), id);
  }
};
const HAS_OUTPUT = `exists (
  select from svc_events where stream = run_id and type = 'run.output_appended'
)`;
const writers = (id: string) =>
  fleet.read<{ type: string; boot_id: string }>(
    'select type, boot_id from svc_events where stream = $1 order by version',
    [id],
  );
const isTrue = async (text: string, id: string) => {
  const query = `select (${text}) as value from svc_runs where run_id = $1`;
  return (await fleet.read<{ value: boolean }>(query, [id]))[0]?.value === true;
};

on(
  'goes on with the same tokens where its model file is, though another node looks first',
  async () => {
    const [first, third] = [await fleet.bootOf(0), await fleet.bootOf(2)];
    const whole = await answerOf(third);
    const id = await cutOff(0);
    await waitFor('the lease of the first node ends soon', () =>
      isTrue(
        `select until < clock_timestamp() + interval '1 s' from svc_nodes
         where boot_id = '${first}'`,
        id,
      ),
    );
    fleet.life(2).child.kill('SIGSTOP');
    await waitFor('the second node has given the run back', () =>
      isTrue('node_id is null and file is not null', id),
    );
    fleet.life(2).child.kill('SIGCONT');
    const after = await followAnswer(fleet.home(1), id);
    checkSame(after, whole);
    const log = await writers(id);
    const recovered = log.findIndex(({ type }) => type === 'run.recovered');
    assert.ok(recovered > 0);
    assert.equal(new Set(log.slice(recovered).map(({ boot_id }) => boot_id)), new Set([third]));
  },
);

on('ends as interrupted, with its text, when no node has its model file', async () => {
  const id = await cutOff(2);
  const { record } = await followAnswer(fleet.home(1), id);
  assert.is(record?.state, 'interrupted');
  assert.is(record?.error?.code, 'model_changed');
  assert.ok((record?.output.length ?? 0) > 0);
  const { stdout } = await fleet.home(1).svc(['runs', 'why', id]);
  assert.match(stdout, /another file, template or adapter of slow/);
});

test.run();
