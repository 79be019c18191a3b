-- Bots of a chat. Each remembers all it was told.
local bots = {}
local heard = 0

function on_message(room, number)
	local bot = bots[room] or {history = {}, score = 0}
	local text = string.rep("message " .. number .. " ", 30)

	bots[room] = bot
	bot.history[#bot.history + 1] = {text = text, at = number}
	bot.score = bot.score + #text:upper()
	heard = heard + 1
	return heard
end

function memory()
	return collectgarbage("count") * 1024
end
