export { isClearText, isLoopback, isOpenInClear, parseAddress, refuseOpenBind } from './address.ts';
export {
  type Certificate,
  type CertificateFiles,
  isNameOf,
  readCertificate,
} from './certificate.ts';
export { type Config, loadConfig } from './config.ts';
export { historySpecs } from './history.ts';
export { credentialOf, keyPlace, splitReference } from './key-reference.ts';
export { readKeyFile, unauthorisedError } from './keys/key-file.ts';
export { createKeys, fixedKey } from './keys/keys.ts';
export { mcpKey, mcpLogin, StoredKeys } from './keys/stored-keys.ts';
export { maskedValue, type SettingSpec, type Source } from './layers.ts';
export {
  askAgainCommand,
  BUILT_IN,
  type BuiltIn,
  commandOf,
  editMcpFile,
  isMcpName,
  isPolicy,
  MCP_NAME,
  type McpFile,
  type McpServerConfig,
  mcpFile,
  originOf,
  readForeignServers,
  readMcpFile,
  readMcpServer,
  startOf,
  targetOf,
  transportOf,
} from './mcp-file.ts';
export { type ModelChoices, saveModelChoices } from './models-file.ts';
export {
  EXAMPLE_ROLES,
  EXAMPLES_MAX,
  type ExampleTurn,
  hasOwnLoad,
  isPresetField,
  type ModelPreset,
  type ModelPresets,
  modelPresetProblem,
  PROMPT_PLACE,
  type Preset,
  presetProblem,
  requestPart,
} from './presets.ts';
export { type AdapterName, adapterSpec, adapters, packageOf } from './providers/adapters.ts';
export {
  canContinueAnswer,
  type KnownProvider,
  knownProvider,
  knownProviders,
  placesOf,
} from './providers/known-providers.ts';
export { kindOf, type ProviderConfig, withDefaults } from './providers/provider.ts';
export { applyProviderChange, readAddedProvider } from './providers/provider-request.ts';
export { removeProvider, saveProvider } from './providers/providers-file.ts';
export { type Reference, referencesIn } from './reference.ts';
export { refuseConfigured } from './refuse-configured.ts';
export { isRemoved, outdatedNames } from './renamed.ts';
export { findSetting, settingKeys, settingPath, settingWords } from './setting-keys.ts';
export { type LogLevel, type Settings, settingSpecs } from './settings.ts';
export { databaseName, isPostgres } from './store/address.ts';
export { storePassword } from './store/password.ts';
export { suggest } from './suggest.ts';
export { brief } from './text.ts';
export { readUserFile, replaceEdited, writeSetting } from './user-file.ts';
export { jsonText, type TemplateForm } from './value.ts';

/** A quick command reads the configuration only when it needs it. */
export const loadConfigReader = () => import('./config.ts');
export const loadProvidersFile = () => import('./providers/providers-file.ts');
export const loadStoredKeys = () => import('./keys/stored-keys.ts');
export const loadUserFile = () => import('./user-file.ts');
