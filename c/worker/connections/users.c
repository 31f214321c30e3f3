/* Users of a connection; see connections.h. */
#include "compat.h"
#include "php/context/context.h"
#include "worker/connections/connections.h"

#include <stdlib.h>

/* Placeholder for the connections of pg_pconnect(). */
static __thread shim_connection persistent;
static __thread bool own_stack_has_used;

const shim_fiber *shim_user_of_own_stack(void)
{
    /* Only the address counts. */
    return (const shim_fiber *)&shim_own_worker;
}

const shim_fiber *shim_user_now(void)
{
    if (shim_own_worker.host == NULL || shim_is_child) {
        return NULL;
    }
    return shim_running != NULL ? shim_running : shim_user_of_own_stack();
}

static shim_user **find(shim_connection *connection, const shim_fiber *user)
{
    shim_user **link = &connection->earlier;
    while (*link != NULL && (*link)->fiber != user) {
        link = &(*link)->next;
    }
    return link;
}

/* If out of memory, the user is not noted, and later users clean up. */
static void keep(shim_connection *connection, const shim_fiber *user)
{
    shim_user *one = *find(connection, user) == NULL ? malloc(sizeof(*one)) : NULL;
    if (one != NULL) {
        *one = (shim_user){.fiber = user, .next = connection->earlier};
        connection->earlier = one;
    }
}

static void strike(shim_user **link)
{
    shim_user *one = *link;
    if (one != NULL) {
        *link = one->next;
        free(one);
    }
}

void shim_user_note(shim_connection *connection)
{
    const shim_fiber *user = shim_user_now();
    if (user == NULL) {
        return;
    }
    /* Set even if the user is noted: shim_user_take_own_stack clears it between requests. */
    if (shim_running != NULL) {
        shim_running->has_used_connection = true;
    } else {
        own_stack_has_used = true;
    }
    if (connection->user == user) {
        return;
    }
    if (connection->user != NULL) {
        keep(connection, connection->user);
        strike(find(connection, user));
    }
    connection->user = user;
}

void shim_user_note_persistent(void)
{
    shim_user_note(&persistent);
}

bool shim_user_is_noted(const shim_connection *connection, const shim_fiber *user)
{
    return connection->user == user || *find((shim_connection *)connection, user) != NULL;
}

bool shim_user_leave(shim_connection *connection, const shim_fiber *user)
{
    if (connection->user == user) {
        connection->user = connection->earlier != NULL ? connection->earlier->fiber : NULL;
        strike(&connection->earlier);
    } else {
        strike(find(connection, user));
    }
    return connection->user == NULL;
}

bool shim_user_has_used_persistent(const shim_fiber *user)
{
    return shim_user_is_noted(&persistent, user);
}

bool shim_user_leave_persistent(const shim_fiber *user)
{
    return shim_user_has_used_persistent(user) && shim_user_leave(&persistent, user);
}

bool shim_user_take_own_stack(void)
{
    const bool has_used = own_stack_has_used;
    own_stack_has_used = false;
    return has_used;
}
