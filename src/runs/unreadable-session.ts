/**
 * A saved session that this build cannot go on with: of another framework, of a newer build, of a version that nothing
 * reads any more, or damaged. Its message is shown to people, so it holds nothing of the conversation.
 */
export class UnreadableSession extends Error {
  override readonly name = 'UnreadableSession'
}
