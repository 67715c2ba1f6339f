import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { judge } from '../../../src/providers/mini/confidence.ts';
import { openAsker } from '../../eval/ask.ts';

const asker = await openAsker();

const questions: [string, string][] = [
  ['What is svc?', 'svc is a local AI runtime daemon'],
  ['How do I start the daemon?', '`svc start`'],
  ['How do I stop it?', '`svc stop`'],
  ['Is the daemon running?', '`svc status`'],
  ['How do I run it in the foreground?', '`svc serve`'],
  ['What is wrong with my setup?', '`svc doctor`'],
  ['How do I see the last log lines?', '`svc logs --tail 100`'],
  ['Check health with grpc', '`svc health --source grpc`'],
  ['Which models do I have?', '`svc model list`'],
  ['How do I add a provider?', '`svc provider add <id>'],
  ['How do I send a prompt to the cloud?', '--cloud'],
  ['How do I cancel a run?', '`svc runs cancel <id>`'],
  ['What does exit code 3 mean?', 'not running'],
  ['What does exit code 8 mean?', 'busy'],
  ['What is the difference between ready and running?', 'ready is idle'],
  ['What does /readyz return?', '`GET /readyz`'],
  ['What is event sourcing?', 'Event sourcing'],
  ['Does my data leave this machine?', 'Nothing leaves this machine'],
  ['Who are you?', 'trained me from nothing'],
  ['What is the capital of France?', 'I know only svc'],
];

test('the twenty questions of the quick start are answered at temperature 0, and surely', async () => {
  assert.is(questions.length, 20);
  for (const [question, part] of questions) {
    const { text, probabilities, ended } = await asker.ask(question);
    assert.ok(text.includes(part) && ended, `${question} → ${text}`);
    assert.is(judge(asker.rule, probabilities, ended), 'accepted', question);
  }
});

test.after(() => asker.close());
test.run();
