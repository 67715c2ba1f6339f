import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { judge } from '../../../src/engine/confidence.ts';
import { openAsker } from '../../eval/ask.ts';

const asker = await openAsker();

// Chosen before the model was made; the quick start of the README shows them.
const questions: [string, string][] = [
  ['What is svc?', 'svc is a local AI runtime daemon'],
  ['How do I start the daemon?', '`svc start`'],
  ['How do I stop the daemon?', '`svc stop`'],
  ['Is the daemon running?', '`svc status`'],
  ['Something is wrong with svc. What can I do?', '`svc doctor`'],
  ['How do I see the logs?', '`svc logs'],
  ['Which models do I have?', '`svc model list`'],
  ['How do I download a bigger model?', '`svc model pull <ref>`'],
  ['How do I use Ollama?', '`svc provider add ollama'],
  ['How do I send a prompt to the cloud?', '--cloud'],
  ['How do I cancel a run?', '`svc runs cancel <id>`'],
  ['What happens to my runs when the daemon crashes?', 'loses nothing that was accepted'],
  ['Can I see my old runs?', '`svc runs list`'],
  ['How do I open the web console?', '`svc console`'],
  ['What does exit code 3 mean?', 'not running'],
  ['What does the state suspended mean?', 'suspended means'],
  ['What is event sourcing?', 'Event sourcing'],
  ['Does my data leave this machine?', 'Nothing leaves this machine'],
  ['Who are you?', 'svc-mini'],
  ['What is the capital of France?', 'I know only svc'],
];

test('the model is sure of its answers to the twenty quick start questions at temperature 0', async () => {
  assert.is(questions.length, 20);
  for (const [question, part] of questions) {
    const { text, probabilities, ended } = await asker.ask(question);
    assert.ok(text.includes(part) && ended, `${question} → ${text}`);
    assert.is(judge(asker.rule, probabilities, ended), 'accepted', question);
  }
});

test.after(() => asker.close());
test.run();
