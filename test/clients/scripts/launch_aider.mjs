import { attempt, includes } from './cases.mjs';
import { launch } from './launching.mjs';

const quiet = '--no-git --no-check-update --no-show-model-warnings --no-analytics --no-pretty';
const words = ['--message', 'say hello there', '--yes-always', ...quiet.split(' ')];

await attempt('aider', async () => includes(await launch('aider', '--', ...words), 'You said'));
