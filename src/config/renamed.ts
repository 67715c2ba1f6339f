/** A setting that had another name. The old name still works. */
export interface RenamedSetting {
  /** Its old name, dotted. */
  was: string;
  /** Its name, dotted. */
  key: string;
  /** The variable of the old name. */
  env: string;
}

export const renamedSettings: readonly RenamedSetting[] = [
  { was: 'engine_together', key: 'engine_batching', env: 'SVC_ENGINE_TOGETHER' },
  { was: 'limits.goodbye_ms', key: 'limits.close_grace_ms', env: 'SVC_LIMIT_GOODBYE_MS' },
  { was: 'limits.frame_bytes', key: 'limits.message_bytes', env: 'SVC_LIMIT_FRAME_BYTES' },
  { was: 'limits.picture_runs', key: 'limits.snapshot_runs', env: 'SVC_LIMIT_PICTURE_RUNS' },
  {
    was: 'limits.picture_text_bytes',
    key: 'limits.snapshot_text_bytes',
    env: 'SVC_LIMIT_PICTURE_TEXT_BYTES',
  },
];

export function findRenamed(was: string): RenamedSetting | undefined {
  return renamedSettings.find((setting) => setting.was === was);
}
