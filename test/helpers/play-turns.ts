import { type ModelTurn, makeRoom, restEnds, turnEnds } from '../../machines/engine-room.ts';
import { type Occupant, type Room, runsToStart } from '../../machines/runs-to-start.ts';

export interface Play {
  models: number;
  /** Models that fit in memory at one time. */
  places: number;
  /** Each asks the model of its number, one run after the other. */
  clients: number;
  runs: number;
  run_ms: number;
  load_ms: number;
  /** From the end of a run to the next one of the client. */
  think_ms: number;
  turn_ms: number;
  turn_max_ms: number;
}

export interface Played {
  loads: number;
  passed_ms: number;
  longest_wait_ms: number;
  answered: number;
}

interface Asked {
  run_id: string;
  model: string;
  client: number;
  at: number;
}

interface Loaded {
  turn: ModelTurn;
  used_at: number;
  runs: number;
}

/** Plays clients against the policy of the scheduler, on a virtual clock. */
export function playTurns(play: Play): Played {
  const { places, load_ms, run_ms, think_ms } = play;
  const loaded = new Map<string, Loaded>();
  const answering: { run: Asked; end: number }[] = [];
  const agenda: { at: number; act(): void }[] = [];
  let [now, left, loads, longest, answered] = [0, play.runs, 0, 0, 0];
  let queue: Asked[] = [];
  const ask = (client: number) => {
    if (left === 0) return;
    left -= 1;
    queue.push({ run_id: `r${left}`, model: `m${client % play.models}`, client, at: now });
  };
  const queued = (model: string) => queue.some((run) => run.model === model);
  const occupants = (at: number): Occupant[] =>
    [...loaded].map(([model, { turn, used_at, runs }]) => ({
      model,
      bytes: 1,
      used_at,
      busy: runs > 0 || turn.loaded_at === null,
      in_turn: at < turnEnds(turn, play),
      resting: at < restEnds(turn),
      loaded_at: turn.loaded_at ?? Number.POSITIVE_INFINITY,
    }));
  const room: Room = {
    bytes: places,
    models: 8,
    find: (key) => ({ key, bytes: 1 }),
    residents: occupants,
  };
  const load = (model: string): number => {
    const residents = occupants(now).map((each) => ({
      ...each,
      wanted: each.resting || queued(each.model),
    }));
    const leaving = makeRoom(1, residents, room);
    if (leaving === null) throw new Error('a run starts without memory for its model');
    for (const each of leaving) loaded.delete(each.model);
    loads += 1;
    loaded.set(model, {
      turn: { asked_at: now, loaded_at: null, idle_since: null },
      used_at: now,
      runs: 0,
    });
    agenda.push({
      at: now + load_ms,
      act: () => {
        const present = loaded.get(model) as Loaded;
        present.turn = { ...present.turn, loaded_at: now };
      },
    });
    return now + load_ms;
  };
  const begin = (run: Asked) => {
    queue = queue.filter((other) => other !== run);
    longest = Math.max(longest, now - run.at);
    const ready = loaded.has(run.model)
      ? Math.max(now, (loaded.get(run.model)?.turn.asked_at ?? 0) + load_ms)
      : load(run.model);
    const model = loaded.get(run.model) as Loaded;
    model.runs += 1;
    model.used_at = now;
    model.turn = { ...model.turn, idle_since: null };
    const active = { run, end: ready + run_ms };
    answering.push(active);
    agenda.push({ at: active.end, act: () => end(active) });
  };
  const end = (active: (typeof answering)[number]) => {
    answering.splice(answering.indexOf(active), 1);
    answered += 1;
    const model = loaded.get(active.run.model) as Loaded;
    model.runs -= 1;
    if (model.runs === 0) model.turn = { ...model.turn, idle_since: now };
    agenda.push({ at: now + think_ms, act: () => ask(active.run.client) });
  };
  const schedule = () => {
    const runs = queue.map(({ run_id, model }) => ({ run_id, provider: 'local', model }));
    const active = answering.map(({ run }) => ({ provider: 'local', model: run.model }));
    const limits = { total: 64, perProvider: 64, local: 4, room };
    const starts = new Set(runsToStart(runs, active, limits, now));
    for (const run of queue.filter(({ run_id }) => starts.has(run_id))) begin(run);
    const rests = [...loaded.values()].map(({ turn }) => restEnds(turn)).filter((at) => at > now);
    if (queue.length > 0 && rests.length > 0) agenda.push({ at: Math.min(...rests), act() {} });
  };
  for (let client = 0; client < play.clients; client += 1) ask(client);
  schedule();
  while (agenda.length > 0 && answered < play.runs) {
    agenda.sort((a, b) => a.at - b.at);
    const next = agenda.shift() as (typeof agenda)[number];
    now = next.at;
    next.act();
    schedule();
  }
  return { loads, passed_ms: now, longest_wait_ms: longest, answered };
}
