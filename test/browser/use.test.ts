import * as assert from 'uvu/assert';
import { waitFor } from '../helpers/wait.ts';
import { serve } from '../torture/daemon.ts';
import { ConsoleSuite } from './console-suite.ts';

/** The console over a long day: cut answers, questions again, a daemon that dies, long talks. */
const on = new ConsoleSuite('the console in use');
const { test, held } = on;
const says = on.says.bind(on);
const classOf = async (selector: string) =>
  (await on.page.locator(selector).getAttribute('class')) ?? '';
const runShown = () =>
  on.life.ask((client) => client.call('run.get', { id: /run_\w+/.exec(on.page.url())?.[0] ?? '' }));

const answered = on.answered.bind(on);

on.inBrowser('an answer that is cut, or has no text, says so', async () => {
  await on.signIn();
  await on.visit('chat');
  await on.page.click('#ask-more summary');
  await on.page.fill('#ask-max-tokens', '3');
  await on.ask('What is svc?', { provider: 'local', fresh: false });
  await says('#chat-state', 'completed');
  await says('#chat-error', /The answer is cut.*allow more tokens/);
  assert.match(await classOf('#chat-error'), /\bmild\b/);
  await on.picture('cut');
  await on.page.click('#chat-run');
  await says('#run-error', /The answer is cut/);
  await on.visit('chat');
  await on.page.click('#ask-more summary');
  await on.page.fill('#ask-max-tokens', '');
  await on.ask('Say nothing', { provider: 'held', fresh: false });
  // An answer without anything is a failed attempt, but blanks are one.
  await answered(' ');
  await says('#chat-error', /without any text/);
  await on.ask('Say all', { provider: 'held' });
  await answered('All.');
  await on.isGone('#chat-error');
});

on.inBrowser('a question is asked again, after the same turns', async () => {
  await on.signIn();
  await on.ask('The first', { provider: 'held' });
  await answered('One.');
  const first = await runShown();
  await on.ask('The second', { fresh: false });
  await on.isHeld();
  assert.is(await on.page.locator('#chat-again').isVisible(), false, 'it is not over');
  held.say('Tw');
  await says('#chat-answer', 'Tw');
  await on.page.click('#ask-stop');
  await says('#chat-state', 'cancelled');
  await says('#chat-error', /was cancelled/);
  assert.match(await classOf('#chat-error'), /\busual\b/, 'what the user did is no failure');
  const stopped = await runShown();
  await on.page.fill('#ask-prompt', 'a draft');
  await on.send(() => on.page.click('#chat-again'));
  await answered('Two.');
  await says('#chat-answer', 'Two.');
  const again = await runShown();
  assert.is.not(again.id, stopped.id);
  assert.equal(
    [again.prompt, again.continues, again.conversation, again.model],
    ['The second', first.id, stopped.conversation, stopped.model],
  );
  assert.is(await on.page.locator('#ask-prompt').inputValue(), 'a draft');
  assert.is((await on.page.locator('#chat-turns .turn').allTextContents()).length, 4);
});

on.inBrowser(
  'a long talk is folded on the page of its run, so that the answer is in view',
  async () => {
    await on.signIn();
    await on.ask('Part 1', { provider: 'held' });
    for (const n of [2, 3, 4, 5]) {
      await answered('Words. '.repeat(300));
      await on.ask(`Part ${n}`, { fresh: false });
    }
    await answered('The last words.');
    await on.page.click('#chat-run');
    await says('#run-output', 'The last words.');
    await says('#run-before-count', 'What was said before (8)');
    assert.is(await on.page.locator('#run-earlier').isVisible(), false);
    await says('#run-messages', /^user.*Part 5$/);
    assert.ok(
      await on.page.evaluate(
        'document.getElementById("run-output").getBoundingClientRect().top < innerHeight',
      ),
    );
    await on.picture('folded');
    await on.page.click('#run-before summary');
    await says('#run-earlier', /Part 1.*Part 4/s);
  },
);

on.inBrowser('how far a model is loaded is said while its run waits', async () => {
  await on.signIn();
  let progress: number | null = 0.42;
  await on.page.route('**/v1/models/loaded', (route) =>
    route.fulfill({ json: { models: [{ id: 'held/held', progress }] } }),
  );
  await on.ask('Load it', { provider: 'held' });
  await on.isHeld();
  await says('#chat-wait', 'Loading held, 42 %.');
  progress = null;
  await says('#chat-wait', /waits for the first token/);
  await answered('Done.');
  await says('#chat-wait', '');
});

on.inBrowser(
  'while the daemon is gone nothing looks as if it moved, and no prompt is lost',
  async () => {
    await on.signIn();
    await on.ask('Cut me off', { provider: 'held' });
    await on.isHeld();
    held.say('before');
    await says('#chat-answer', 'before');
    await on.page.fill('#ask-prompt', 'for later');
    await on.page.keyboard.press('Enter');
    await says('#ask-said', 'Wait for the answer, or stop it.');
    process.kill(on.life.pid, 'SIGKILL');
    await says('#status-path', 'gone');
    await says('#chat-wait', '');
    await waitFor(
      'the cursor is gone',
      async () => !/growing/.test(await classOf('.turn.assistant')),
    );
    await says('#ask-said', '');
    await on.page.keyboard.press('Enter');
    await says('#ask-said', 'The daemon is gone. The prompt stays here.');
    await on.picture('gone');
    on.life = await serve(on.home, { env: { SVC_HTTP: new URL(on.url).host } });
    await says('#ask-said', '');
    await says('#chat-state', 'interrupted');
    assert.is(await on.page.locator('#ask-prompt').inputValue(), 'for later');
    await on.send(() => on.page.click('#chat-again'));
    await answered('the whole answer');
    await says('#chat-answer', 'the whole answer');
  },
);

on.inBrowser('a question is sent while the page thinks that the daemon is gone', async () => {
  await on.signIn();
  await on.visit('chat');
  await on.chooseModelOf('held');
  await on.page.route('**/v1/runtime/health', () => {});
  await says('#status-path', 'gone');
  await on.page.fill('#ask-prompt', 'Are you there?');
  await on.send();
  await on.page.unroute('**/v1/runtime/health');
  await answered('Yes.');
  await says('#chat-answer', 'Yes.');
});

on.inBrowser('the log opens at its end, and stays where the user scrolls', async () => {
  await on.signIn();
  const start = (prompt: string, provider: string) =>
    on.life.ask((client) => client.call('run.start', { prompt, provider }));
  for (let count = 0; count < 24; count += 1) await start('Hi', 'held');
  const waiting = await start('The last one', 'held');
  await on.visit('log');
  const line = on.page.locator('#logs-lines li', { hasText: `${waiting.id} accepted` });
  await line.waitFor();
  const place = () =>
    on.page.evaluate<{ top: number; left: number }>(
      "(() => { const box = document.getElementById('logs-lines'); return { top: box.scrollTop, left: box.scrollHeight - box.scrollTop - box.clientHeight }; })()",
    );
  await waitFor('it shows its end', async () => (await place()).left < 24);
  assert.ok((await place()).top > 0, 'it has more lines than fit');
  assert.is((await line.textContent())?.match(/run_/g)?.length, 1, 'the id is said once');
  await on.page.evaluate("document.getElementById('logs-lines').scrollTop = 0");
  const answered = await start('What is svc?', 'local');
  await on.page.locator('#logs-lines li', { hasText: `${answered.id} completed` }).waitFor();
  assert.is((await place()).top, 0);
});

test.run();
