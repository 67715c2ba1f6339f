import { answerQuestions } from '../../async/foreign-child.ts';
import { problemOfArguments } from './arguments.ts';

/** Process that judges arguments by schemas of servers of tools, which may be hostile. */
answerQuestions(problemOfArguments);
