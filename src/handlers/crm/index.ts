export type { Person, PeopleStore } from './people.ts'
export { scopedPeople } from './scoped-people.ts'
export { crmTools } from './tools.ts'
