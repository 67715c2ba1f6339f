import { readFileSync, writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { makePausedHome, type PausedHome } from '../helpers/daemon.ts';
import { waitFor } from '../helpers/wait.ts';

const test = suite<{ home: PausedHome }>('who follows a run whose answer is not kept');

test.before.each(async (context) => {
  context.home = await makePausedHome({});
  const { paths } = context.home;
  writeFileSync(
    paths.config,
    JSON.stringify({
      ...JSON.parse(readFileSync(paths.config, 'utf8')),
      history: { outputs: 'omit' },
    }),
  );
});
test.after.each(({ home }) => home.close());

test('gets the whole text while the run is active, and later an error that it is not kept', async ({
  home,
}) => {
  const { server } = home;
  const run = home.spawn(['run', 'tell']);
  await waitFor('the provider is asked', () => server.streams.size === 1);
  for (const piece of ['Once ', 'upon ', 'a time']) server.say(piece);
  server.finish();
  assert.is((await run.ended).stdout, 'Once upon a time\n');
  const { runs } = JSON.parse((await home.svc(['runs', 'list', '--json'])).stdout);
  const late = await home.svc(['runs', 'attach', runs[0].id]);
  assert.equal([late.code, late.stdout], [10, '']);
  assert.match(late.stderr, 'The log does not keep the output');
});

test.run();
