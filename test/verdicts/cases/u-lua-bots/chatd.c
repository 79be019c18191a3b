/* A chat server with scripts in Lua. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <time.h>

static lua_Number call(lua_State *lua, const char *name, int room, int number)
{
	lua_Number result;

	lua_getglobal(lua, name);
	lua_pushinteger(lua, room);
	lua_pushinteger(lua, number);
	if (lua_pcall(lua, 2, 1, 0) != LUA_OK)
		return -1;
	result = lua_tonumber(lua, -1);
	lua_pop(lua, 1);
	return result;
}

int main(void)
{
	lua_State *lua = luaL_newstate();
	struct timespec next;

	luaL_openlibs(lua);
	if (luaL_dofile(lua, "bots.lua") != LUA_OK)
		return 1;
	puts("ready");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int tick = 0;; tick++) {
		for (int i = 0; i < 6; i++)
			call(lua, "on_message", i, tick * 6 + i);
		if (tick % 100 == 0)
			fprintf(stderr, "%d messages, Lua holds %.0f bytes\n", tick * 6,
				call(lua, "memory", 0, 0));
		next.tv_nsec += 20000000;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
	}
}
