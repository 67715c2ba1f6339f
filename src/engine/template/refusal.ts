import { SvcError } from '../../errors.ts';

/** Why a template cannot be rendered. */
export class TemplateError extends Error {
  /** The template itself refuses the conversation. If not, llama.cpp cannot render the template. */
  readonly isRefusal: boolean;

  constructor(message: string, isRefusal: boolean) {
    super(message);
    this.isRefusal = isRefusal;
  }
}

/** Whose fault it is: the template refuses the conversation, or llama.cpp the template. */
export function refusalOf(error: Error): SvcError {
  const reason = error.message.slice(0, REASON_MAX);
  if (error instanceof TemplateError && !error.isRefusal)
    return new SvcError(
      'capability_missing',
      `llama.cpp cannot render the chat template of the model for this conversation: ${reason}`,
      {
        param: 'messages',
        hint:
          'The fault is in the template of the model file, not in the request. ' +
          'Name another template in model_templates, such as chatml.',
      },
    );
  return new SvcError(
    'capability_missing',
    `The chat template of the model refuses the conversation: ${reason}`,
    {
      param: 'messages',
      hint:
        'Change the messages as the template asks for, or name another template in ' +
        'model_templates.',
    },
  );
}
const REASON_MAX = 200;
