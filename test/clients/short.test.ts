import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { runBounded } from './install.ts';
import { outcomeOf } from './report.ts';
import { openStage, type Stage } from './stage.ts';
import { CLIENTS, type Client } from './table.ts';

/** The clients of npm that this checkout has, as `npm run clients` runs them. */
const test = suite<{ stage: Stage }>('third-party clients');

test.before(async (context) => {
  context.stage = await openStage();
});
test.after(({ stage }) => stage.close());

const HERE = new Set(['openai.mjs', 'anthropic.mjs', 'ollama.mjs', 'ai_sdk.mjs']);
/** It bounds a hang. */
const BOUND_MS = 300_000;

const isHere = ({ script, packages }: Client) =>
  HERE.has(script) &&
  packages.every((each) => existsSync(join('node_modules', each.replace(/@[^@]+$/, ''))));

for (const client of CLIENTS.filter(isHere))
  test(client.name, async ({ stage }) => {
    const script = join(import.meta.dirname, 'scripts', client.script);
    const command = [process.execPath, script, ...(client.args ?? [])];
    const options = { cwd: import.meta.dirname, env: stage.env, bound_ms: BOUND_MS };
    const { code, printed } = await runBounded(command, options);
    const { passed, failed } = outcomeOf(
      client.known,
      printed,
      code === 0 ? null : `ended with ${code}`,
    );
    assert.equal(failed, []);
    assert.ok(passed.length > 5, 'it has cases');
  });

test.run();
