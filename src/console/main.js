// @ts-check
import { mountSession } from './daemon/session.js';
import { loadMarkdown } from './parts/markdown.js';
import { followChosen } from './state/chosen-run.js';
import { lookAround } from './state/look.js';
import { markChanged } from './state/model.js';
import { followPresent } from './state/present.js';
import { loadMeanings } from './state/tone.js';
import { followApprovals, mountApprovals } from './views/approvals-view.js';
import { mountAsk } from './views/ask-view.js';
import { mountChat } from './views/chat-view.js';
import { mountDaemon } from './views/daemon-view.js';
import { mountEvents } from './views/events-view.js';
import { mountFields } from './views/fields-view.js';
import { mountFigures } from './views/figures-view.js';
import { mountFiles } from './views/files-view.js';
import { mountKeys } from './views/keys-view.js';
import { followLogs, mountLogs } from './views/logs-view.js';
import { mountMachines } from './views/machines-view.js';
import { mountModels } from './views/models-view.js';
import { mountNotify } from './views/notify-view.js';
import { mountPages } from './views/pages-view.js';
import { mountProviders } from './views/providers-view.js';
import { mountPull } from './views/pull-view.js';
import { mountRecent } from './views/recent-view.js';
import { mountRun } from './views/run-view.js';
import { mountRuns } from './views/runs-view.js';
import { mountSettings } from './views/settings-view.js';
import { mountTarget } from './views/target-view.js';
import { mountTime } from './views/time-view.js';

/** Builds the page: the views once, and the streams while a user is signed in. */
let streams = new AbortController();
streams.abort();

// Without them states have no colour and no words.
await loadMeanings().catch(() => {});
for (const mount of [
  mountDaemon,
  mountTime,
  mountMachines,
  mountRuns,
  mountRun,
  mountChat,
  mountApprovals,
  mountRecent,
  mountFields,
  mountTarget,
  mountFiles,
  mountAsk,
  mountProviders,
  mountModels,
  mountPull,
  mountFigures,
  mountSettings,
  mountNotify,
  mountEvents,
  mountLogs,
  mountKeys,
  mountPages,
])
  mount();
followChosen();
// Without the library the answers are shown as they are written.
void loadMarkdown().then(
  () => markChanged('output'),
  () => {},
);
// Some browsers scroll only focusable elements with the keyboard.
for (const box of document.querySelectorAll('.scroll, pre, #diagram'))
  box.setAttribute('tabindex', '0');
mountSession({
  enter: () => {
    if (!streams.signal.aborted) return;
    streams = new AbortController();
    void followPresent(streams.signal);
    void followApprovals(streams.signal);
    followLogs(streams.signal);
    void lookAround(streams.signal);
  },
  leave: () => streams.abort(),
});
// Without it the page does not open while the daemon is away: a browser may refuse it.
void navigator.serviceWorker?.register('/console/worker.js', { scope: '/' }).catch(() => {});
