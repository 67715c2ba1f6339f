import * as v from 'valibot';
import { orNull } from './records.ts';
import { flag, named, object, oneOf, text } from './vocabulary.ts';

/** When a change of a setting takes effect: at once, in the next command, or after a restart. */
export const CHANGES = ['live', 'command', 'restart'] as const;

const setting = named(
  'Setting',
  object({
    /** With dots, such as `history.keep_days`. */
    key: text,
    /** The value in force. */
    value: v.unknown(),
    /** A part of the value may be secret, and is not shown. */
    hidden: flag,
    default: v.unknown(),
    /** `flag`, `environment`, `file` or `default`; or the file of svc that has it. */
    source: text,
    /** The environment variable that sets it. */
    variable: text,
    meaning: text,
    expects: text,
    change: oneOf(CHANGES),
    /** Changes of the configuration file that are not in force yet. */
    pending: orNull(object({ value: v.unknown() })),
  }),
);
export type SettingRecord = v.InferOutput<typeof setting>;

export const settingsRecord = named(
  'Settings',
  object({
    /** The configuration file. */
    file: text,
    file_exists: flag,
    /** Why the file cannot be read; null if it can. */
    problem: orNull(text),
    /** Settings of the file that are not in force yet, also `providers.<id>`. */
    pending: v.array(text),
    settings: v.array(setting),
  }),
);
export type SettingsRecord = v.InferOutput<typeof settingsRecord>;

export const appliedSettings = named(
  'AppliedSettings',
  object({
    /** Settings that changed now. */
    applied: v.array(text),
    /** Settings that change with the next start. */
    after_restart: v.array(text),
  }),
);
export type AppliedSettings = v.InferOutput<typeof appliedSettings>;

/** The configuration for transports. They cannot write it. */
export interface Configuration {
  settings(): SettingsRecord;
  /** Reads the file again. Throws config_invalid. */
  apply(): AppliedSettings;
}
