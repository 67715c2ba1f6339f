import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { ConsoleSuite } from './console-suite.ts';

/**
 * Makes the pictures of docs/console.md: `npm run pictures`. The built-in model answers, so they
 * need no network. It needs the browser of the tests.
 */
const on = new ConsoleSuite('pictures of the console');
const FOLDER = resolve('docs/pictures');

async function take(name: string): Promise<void> {
  await on.page.screenshot({ path: join(FOLDER, `console-${name}.png`) });
}

on.inBrowser(
  'the pages that docs/console.md shows',
  async () => {
    mkdirSync(FOLDER, { recursive: true });
    await on.signIn();
    await on.ask('What is svc?', { provider: 'local' });
    await on.says('#chat-state', 'completed');
    await on.ask('How do I see the last log lines?', { provider: 'local', fresh: false });
    await on.says('#chat-state', 'completed');
    await take('chat');
    await on.page.click('#chat-run');
    await on.says('#run-state', /completed/);
    await take('run');
    await on.visit('overview');
    await on.isThere('#chart-rate rect');
    await take('overview');
  },
  { viewport: { width: 1120, height: 700 }, reducedMotion: 'reduce' },
);

on.test.run();
