// @ts-check
import { followChosen } from './chosen-run.js';
import { mountDaemon } from './daemon-view.js';
import { mountEvents } from './events-view.js';
import { mountKeys } from './keys-view.js';
import { followLogs, mountLogs } from './logs-view.js';
import { mountMachines } from './machines-view.js';
import { followPresent } from './present.js';
import { mountPrompt } from './prompt-view.js';
import { mountRun } from './run-view.js';
import { mountRuns } from './runs-view.js';
import { mountSession } from './session.js';
import { mountTime } from './time-view.js';

/** Builds the page: the views once, and the two streams while a user is signed in. */
let streams = new AbortController();
streams.abort();

for (const mount of [
  mountDaemon,
  mountTime,
  mountMachines,
  mountRuns,
  mountRun,
  mountPrompt,
  mountEvents,
  mountLogs,
  mountKeys,
])
  mount();
followChosen();
// Some browsers scroll only focusable elements with the keyboard.
for (const box of document.querySelectorAll('.scroll, pre, #diagram'))
  box.setAttribute('tabindex', '0');
mountSession({
  enter: () => {
    if (!streams.signal.aborted) return;
    streams = new AbortController();
    void followPresent(streams.signal);
    followLogs(streams.signal);
  },
  leave: () => streams.abort(),
});
